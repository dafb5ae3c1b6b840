#!/bin/sh
# A GPU round: checks and measures one GPU in at most eight minutes, most important first (docs/gpu.md).
#
#     sh round.sh [DIRECTORY [STEP]]
#
# writes DIRECTORY/round.jsonl, a line after each step, and what each step prints in DIRECTORY/STEP.jsonl and STEP.log; with STEP it
# only runs that step's command. It needs the files in its directory, a driver and NVRTC; the steps jax-* need a Python with jax[cuda13].
set -uf
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/results} step=${2:-}
: "${OPERANT:=$here/operant}" "${PYTHON:=python3}" "${GPU:=cuda}" "${BUDGET:=480}"
# Sizes, which tests make smaller, and the steps to run instead of all.
: "${ENVS:=8192}" "${MANY:=65536}" "${STEPS:=128}" "${MINIBATCH:=32768}" "${PRECISIONS:=f32,tf32,bf16}" "${WORLDS:=all}"
: "${EACH:=15}" "${RUN:=3e9}" "${BREAKOUT:=2e9}" "${RUN_PRECISION:=bf16}" "${SHARE:=0/1}" "${ONLY:=}"

# Name, predicted seconds with compiled kernels (an H200 with 16 cores took these), and the most that it may take.
steps='
selftest           35 100
compiled           10  60
cartpole-shared    14  40
cartpole-separate  14  40
worlds             45  75
gemm-128           15  30
gemm-256           15  30
gemm-512           15  30
gemm-1024          17  35
gemm-conv          17  35
gemm-embed         14  30
gemm-mingru        14  30
gemm-lstm          17  35
gemm-pqn           14  30
overlap-off         8  25
overlap-on          8  25
breakout_large     40  75
jax-f32            26  60
jax-bf16           20  60
cartpole-many      14  30
jax-many           20  60
cartpole-128       14  30
walk               90 200
'

# The arguments of `operant bench` in a step. The GEMM path takes networks that the fused kernels would take only if it is set.
bench_of() {
    shared='--set shared_trunk=true'
    case $1 in
        cartpole-shared) arguments="train $shared --precision $PRECISIONS" ;;
        cartpole-separate) arguments="train --precision $PRECISIONS" ;;
        cartpole-many) arguments="train --precision f32,bf16 --envs $MANY" ;;
        cartpole-128) arguments="train $shared --precision f32,bf16 --hidden 128,128" ;;
        worlds) arguments="env --env $WORLDS --envs $MANY --bits --budget $((3 * EACH))" ;;
        walk) arguments="train $shared --env $WORLDS --precision bf16 --budget 30" ;;
        gemm-conv) arguments="train $shared --env minatar_breakout --hidden 128 --set conv=[[16,3,1]] --precision f32,bf16" ;;
        gemm-embed) arguments="train $shared --env taxi --set encoder=embed --set kernels=gemm --precision f32,bf16" ;;
        gemm-mingru) arguments="train $shared --env cartpole_no_velocity --core mingru --precision f32,bf16" ;;
        gemm-lstm) arguments="train $shared --env cartpole_no_velocity --core lstm --precision f32,bf16" ;;
        gemm-pqn) arguments="train --set algorithm=pqn --hidden 128,128 --precision f32,bf16" ;;
        gemm-*) arguments="train $shared --hidden ${1#gemm-},${1#gemm-} --set kernels=gemm --precision $PRECISIONS" ;;
    esac
    case $arguments in *--envs*) ;; *) arguments="$arguments --envs $ENVS" ;; esac
    case $arguments in *--budget*) ;; *) arguments="$arguments --budget $EACH" ;; esac
    echo "$arguments --device $GPU --steps $STEPS --minibatch $MINIBATCH --stream"
}

is_chosen() {
    case " ${ONLY:-$1} " in *" $1 "*) ;; *) return 1 ;; esac
}

# Compiles the kernels of a share of a step's cases. NVRTC compiles one program at a time in each process.
compile() {
    "$OPERANT" bench $(bench_of "$1") --compile "$2" &
}

# Whole runs; PPO in JAX with N environments in a precision: five measurements of two seconds.
train() {
    exec "$OPERANT" train "$@" --device "$GPU" --precision "$RUN_PRECISION" --seed 1 --run-dir "$out/runs" --no-ring --json \
        --set num_envs="$ENVS" --set csv=false --set tensorboard=false --set checkpoint_interval=0
}
cartpole() {
    train cartpole --steps "$RUN" --set num_steps="$STEPS" --set num_minibatches=$((ENVS * STEPS / MINIBATCH)) \
        --set update_epochs=4 --set hidden=64,64 --set shared_trunk=true --set eval_interval=1000000 --set eval_episodes=4 "$@"
}
jax() {
    echo "{\"envs\":$1,\"precision\":\"$2\"}"
    printf '2\n2\n2\n2\n2\n' | JAX_PLATFORMS=${JAX_PLATFORMS:-cuda} XLA_PYTHON_CLIENT_PREALLOCATE=false "$PYTHON" "$here/ppo_jax.py" \
        --num-envs "$1" --num-steps "$STEPS" --num-minibatches $(($1 * STEPS / MINIBATCH)) --precision "$2" \
        --generator rbg --total-timesteps 1000000000000
}

case $step in
    '') ;;
    ahead)
        echo "$steps" | while read -r name _; do
            case $name in cartpole-* | gemm-*) is_chosen "$name" && compile "$name" "$SHARE" ;; esac
            [ "$name" != walk ] || wait
        done
        : >"$out/ahead"
        cores=$(nproc)
        for name in worlds walk; do
            share=0
            while is_chosen $name && [ $share -lt "$cores" ]; do
                compile $name "$share/$cores"
                share=$((share + 1))
            done
            wait
        done
        exit
        ;;
    selftest) exec "$OPERANT" selftest gpu --quick --env cartpole,pendulum --json ;;
    compiled) until [ -e "$out/ahead" ]; do sleep 1; done && exit ;;
    overlap-off) cartpole --set overlap=false ;;
    overlap-on) cartpole --set overlap=true ;;
    breakout_large)
        train breakout_large --steps "$BREAKOUT" --set num_steps=64 --set num_minibatches=16 --set norm_reward=true \
            --set "hidden=[128,128]" --set solved_at=864 --set stop_when_solved=true --set eval_interval=100
        ;;
    jax-many) jax "$MANY" bf16 && exit ;;
    jax-*) jax "$ENVS" "${step#jax-}" && exit ;;
    *) exec "$OPERANT" bench $(bench_of "$step") ;;
esac
[ -z "$step" ] || exit 1

now() { date +%s; }
# A line about a step; the last one of a step counts.
record() {
    printf '{"step":"%s","result":"%s","predicted_s":%s,"seconds":%s,"why":"%s"}\n' "$@" >>"$out/round.jsonl"
}
begin=$(now)
mkdir -p "$out"
rm -rf "$out/ahead" "$out/runs"
printf '{"date":"%s","commit":"%s"}\n' "$(date +%F)" "$(cat "$here/commit" 2>/dev/null)" >"$out/round.jsonl"
"$OPERANT" info --json >"$out/info.json"
timeout "$BUDGET" sh "$0" "$out" ahead >"$out/ahead.log" 2>&1 &
ahead=$!
trap 'kill $ahead 2>/dev/null' EXIT
trap 'exit 130' INT TERM
echo "$steps" | while read -r name predicted limit; do
    if [ -z "$name" ] || ! is_chosen "$name"; then continue; fi
    left=$((BUDGET - $(now) + begin)) started=$(now) why=
    [ "$left" -ge "$limit" ] || limit=$left
    if [ "$left" -lt "$predicted" ]; then
        result=skipped
    else
        echo "$name: $predicted s predicted, $limit at most"
        record "$name" interrupted "$predicted" 0 ''
        timeout -k 5 "$limit" sh "$0" "$out" "$name" >"$out/$name.jsonl" 2>"$out/$name.log" </dev/null
        case $? in
            0) result=done ;;
            124 | 137) result='timed out' ;;
            *) result=failed why=$(tail -n 1 "$out/$name.log" | tr -cd '[:print:]' | tr -d '"\\' | cut -c 1-200) ;;
        esac
    fi
    seconds=$(($(now) - started))
    echo "$name: $result after $seconds s, $predicted predicted${why:+: $why}"
    record "$name" "$result" "$predicted" "$seconds" "$why"
done
