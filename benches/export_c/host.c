/* The same actions on this machine. */

#include "policy.h"
#include "observations.h"
#include <stdio.h>

static struct policy policy;

int main(void)
{
    for (int k = 0; k < OBSERVATIONS; k++) {
        union { float number; uint32_t bits; } action[POLICY_ACTIONS];
        if (k % EPISODE == 0)
            policy_reset(&policy);
        policy_act(&policy, observations[k], 0, &action[0].number);
        for (int i = 0; i < POLICY_ACTIONS; i++)
            printf("%08x\n", (unsigned)action[i].bits);
    }
    return 0;
}
