#!/bin/sh
# Ten attacks on operant by files, names and directories of strangers: attacks.sh OPERANT WORLD PYTHON
# OPERANT is the program, WORLD a file of a world, PYTHON an interpreter with sqlite3. Works in the present directory, which must be
# empty, prints PASS or FAIL for each attack, and exits with the number of those that succeeded.
operant=$1 world=$2 python=$3
failures=0
escape=$(printf '\033') override=$(printf '\342\200\256')

# Runs a command; its output is in ./said, and its exit code in $code. What hangs is ended.
attack() {
    timeout -k 5 300 "$@" >said 2>&1 </dev/null
    code=$?
}

fail() {
    why="$why; $*: exit code $code: $(head -c 300 said | tr '\n' ' ')"
}

# The last command was refused with code 2, and said this.
refused() {
    { [ "$code" = 2 ] && grep -q -e "$1" said; } || fail "it was not refused with \"$1\""
}

# Nothing of this name was made.
absent() {
    { [ ! -e "$1" ] && [ ! -L "$1" ]; } || fail "$1 was made"
}

verdict() {
    if [ -z "$why" ]; then
        echo "PASS $1"
    else
        echo "FAIL $1${why}"
        failures=$((failures + 1))
    fi
    why=
}

mkdir runs
small="num_envs=16 num_steps=16 total_timesteps=256 eval_episodes=2 hidden=8"
settings=
for setting in $small; do settings="$settings --set $setting"; done
# shellcheck disable=SC2086 # several words
attack "$operant" train cartpole --name mine --quiet $settings
[ "$code" = 0 ] || { cat said; echo "FAIL: no run to attack with"; exit 100; }

# 1. The program that a stranger's run names.
mkdir runs/theirs
printf 'environment = "x_v0"\ndevice = "cpu"\nnum_envs = 4\n[env]\nworkers = 2\n' >runs/theirs/config.toml
cat >runs/theirs/env.world <<END
{"operant_gym":1,"make":"os:system?command=touch pwned","directory":"/","masked":false,"starts":[0],"atari":false,
 "spec":{"name":"x_v0","obs":{"box":{"low":[-1.0],"high":[1.0]}},"actions":{"discrete":[2]},"time_limit":10}}
END
attack "$operant" train --resume theirs
refused "\-\-trust"
absent pwned
verdict "a stranger's run starts no program without --trust"
rm -rf runs/theirs

# 2. Directories in a world's preset.
sed "s|solved_at = 475.0|run_dir = 'pwned'|" "$world" >preset.world
attack "$operant" train ./preset.world
refused "preset sets run_dir"
absent pwned
verdict "a world's preset names no directories"

# 3. Paths in names.
cp -r runs/mine runs/outside
sed -i 's|"env": *"cartpole"|"env":"../../pwned"|' runs/outside/result.json
attack "$operant" report outside --plots a/b
[ "$code" = 0 ] || fail "no plots"
for file in pwned* a/pwned* ../pwned* a/b/../../pwned*; do absent "$file"; done
[ -n "$(ls a/b)" ] || fail "no plots in their directory"
verdict "plots stay in their directory"

# 4. Devices and pipes as outputs.
mkfifo pipe
ln -s /dev/null device
timeout 60 cat pipe >received &
attack "$operant" export mine --onnx pipe
[ "$code" = 0 ] || fail "a pipe was not written"
wait
{ [ -p pipe ] && [ -s received ]; } || fail "the pipe was replaced"
attack "$operant" export mine --onnx device
{ [ "$code" = 0 ] && [ -L device ] && [ -c device ]; } || fail "the device was replaced"
verdict "devices and pipes are written, not replaced"

# 5. Pipes and endless files as inputs.
for name in pipe.world pipe.toml pipe.kb; do mkfifo $name; done
ln -s /dev/zero zero.world
ln -s /dev/zero zero.toml
for file in pipe.world zero.world; do
    attack "$operant" train ./$file
    refused "not a regular file"
done
for file in pipe.toml zero.toml; do
    attack "$operant" sweep ./$file
    refused "not a regular file"
done
for file in pipe.kb zero.toml; do
    attack "$operant" train prover --set env.knowledge=$file
    refused "not a regular file"
done
verdict "pipes and endless files are refused as inputs"

# 6. Few descriptors.
# shellcheck disable=SC2086 # several words
attack sh -c 'ulimit -n 8; exec "$@"' sh "$operant" train cartpole --name few --quiet $settings
case $code in
    0) ;;
    1 | 2) grep -q "^error: " said || fail "no error" ;;
    *) fail "it hangs or crashes" ;;
esac
verdict "with eight descriptors it trains or ends with an error"

# 7. Control characters and changes of direction.
cp -r runs/mine runs/escapes
sed -i 's|"env": *"cartpole"|"env":"x\\u001b[2J\\u202ey"|' runs/escapes/result.json runs/escapes/run.json
sed "s|Balance a pole|${override}${override}Balance|" "$world" >escapes.world
cp -r runs/escapes runs/others
for command in "report escapes" "runs" "monitor escapes --once" "compare escapes others" "envs ./escapes.world"; do
    # shellcheck disable=SC2086 # several words
    attack "$operant" $command
    if LC_ALL=C grep -q -e "$escape" -e "$override" said; then fail "operant $command prints them"; fi
    { [ "$code" = 0 ] && [ -s said ]; } || fail "operant $command fails"
done
verdict "results have no control characters and no changes of direction"

# 8. A table of a sweep with a view, and with a trigger.
# shellcheck disable=SC2086 # several words
attack "$operant" sweep cartpole --name swept --jobs 1 $settings --set gamma=0.9,0.99
[ "$code" = 0 ] || fail "no sweep"
cp -r runs/swept kept
for change in "ALTER TABLE curves RENAME TO c; CREATE VIEW curves AS SELECT * FROM c" \
    "CREATE TRIGGER t AFTER UPDATE ON sweep BEGIN DELETE FROM results; END"; do
    rm -rf runs/swept
    cp -r kept runs/swept
    attack "$python" -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])' runs/swept/sweep.db "$change"
    [ "$code" = 0 ] || fail "the table was not changed"
    for command in "report swept" "sweep --resume swept"; do
        # shellcheck disable=SC2086 # several words
        attack "$operant" $command
        refused "table of the sweep is damaged"
    done
done
verdict "tables with views and triggers are refused"

# 9. Names that a crate cannot have.
for name in fn std test operant; do
    attack "$operant" new $name
    refused "cannot be the name of a crate"
    absent $name
done
verdict "a new crate has no name of Rust's or operant's"

# 10. Modules in the working directory.
mkdir -p site/operant venv/bin here
echo "import numpy, json" >site/operant/_record.py
: >site/operant/__init__.py
echo "open('own', 'w')" >site/numpy.py
for module in numpy json runpy; do echo "open('pwned', 'w')" >here/$module.py; done
printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >venv/bin/python
chmod +x venv/bin/python
(cd here && VIRTUAL_ENV=$PWD/../venv PYTHONPATH=$PWD/../site timeout -k 5 300 "$operant" train gym:X-v0) >said 2>&1 </dev/null
code=$?
absent here/pwned
[ -e here/own ] || fail "the package's own module was not imported"
verdict "modules of the working directory replace none of Python's"

exit $failures
