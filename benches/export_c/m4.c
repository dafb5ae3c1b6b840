/* Actions of an exported policy on a Cortex-M4 without an operating system: prints the instructions that an action takes, then the bits of
 * each action's numbers. Output goes through semihosting. */

#include "policy.h"
#include "observations.h"

extern uint32_t stack_top, data_from, data_start, data_end, bss_start, bss_end;

#define CPACR (*(volatile uint32_t *)0xe000ed88)
#define SYSTICK_CONTROL (*(volatile uint32_t *)0xe000e010)
#define SYSTICK_RELOAD (*(volatile uint32_t *)0xe000e014)
#define SYSTICK_VALUE (*(volatile uint32_t *)0xe000e018)

/* With `-icount shift=0` an instruction takes 1 ns, and the timer of mps2-an386 counts at 25 MHz. */
#define INSTRUCTIONS_PER_TICK 40
#define LAST_TICK 0xffffffu
#define CALIBRATION_LOOPS 1000000u

static struct policy policy;
static float actions[OBSERVATIONS][POLICY_ACTIONS];

static void semihost(int operation, const void *argument)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static void print(const char *text)
{
    semihost(0x04, text);
}

static void print_hex(uint32_t number)
{
    char text[10];
    for (int i = 0; i < 8; i++)
        text[i] = "0123456789abcdef"[number >> (28 - 4 * i) & 15];
    text[8] = '\n';
    text[9] = 0;
    print(text);
}

static void start_timer(void)
{
    SYSTICK_VALUE = 0;
}

/* Since the start; 0 if the timer has wrapped, after 671 million instructions. */
static uint32_t instructions(void)
{
    if (SYSTICK_CONTROL >> 16 & 1)
        return 0;
    return (LAST_TICK - SYSTICK_VALUE) * INSTRUCTIONS_PER_TICK;
}

/* Not a part of reset, which must not use the floating-point unit before it is on. */
static __attribute__((noinline)) void measure(void)
{
    SYSTICK_RELOAD = LAST_TICK;
    SYSTICK_CONTROL = 5;

    /* Two instructions a loop. */
    uint32_t loops = CALIBRATION_LOOPS;
    start_timer();
    __asm__ volatile("1: subs %0, #1\n bne 1b" : "+r"(loops) : : "cc");
    print_hex(instructions());

    start_timer();
    for (int k = 0; k < OBSERVATIONS; k++) {
        if (k % EPISODE == 0)
            policy_reset(&policy);
        policy_act(&policy, observations[k], 0, actions[k]);
    }
    print_hex(instructions());
    for (int k = 0; k < OBSERVATIONS; k++)
        for (int i = 0; i < POLICY_ACTIONS; i++) {
            union { float number; uint32_t bits; } action;
            action.number = actions[k][i];
            print_hex(action.bits);
        }
}

static void reset(void)
{
    uint32_t *from = &data_from;
    CPACR |= 0xfu << 20; /* the floating-point unit */
    __asm__ volatile("dsb\n isb");
    for (uint32_t *to = &data_start; to < &data_end;)
        *to++ = *from++;
    for (uint32_t *to = &bss_start; to < &bss_end;)
        *to++ = 0;
    measure();
    semihost(0x18, (const void *)0x20026);
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const void *const vectors[] = {&stack_top, (const void *)reset};
