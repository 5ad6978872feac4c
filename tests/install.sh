#!/usr/bin/env bash
# Installs Tanto under a temporary prefix, uses it and uninstalls it. Prints a line for each check.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit

lab=$(mktemp -d)
export XDG_CACHE_HOME=$lab/cache
trap 'rm -rf "$lab"' EXIT
prefix="$lab/a prefix"
failed=0

check() {
    local name=$1
    shift
    if "$@" >"$lab/output" 2>&1; then
        printf 'ok %s\n' "$name"
    else
        printf 'not ok %s: %s\n' "$name" "$*"
        cat "$lab/output"
        failed=1
    fi
}

refuses() { ! "$@"; }

list_tree() { (cd "$1" && find . ! -name . | sort); }

same_tree() { [ "$(list_tree "$1")" = "$2" ]; }

builds_as_ninja() {
    mkdir -p "$lab/build"
    printf 'rule copy\n  command = cp $in $out\nbuild out: copy in\n' >"$lab/build/build.ninja"
    echo text >"$lab/build/in"
    "$prefix/bin/ninja" -C "$lab/build" && cmp "$lab/build/in" "$lab/build/out" &&
        "$prefix/bin/ninja" -C "$lab/build" | grep -qx 'ninja: no work to do.'
}

. tests/need.sh
explains_missing_packages() {
    local message
    # No apt-get is in PATH.
    message=$(PATH=$lab/none /bin/bash -c '. tests/need.sh; worker_packages=(llvm-19-dev=/nowhere); need_llvm' 2>&1) && return 1
    printf '%s\n' "$message"
    [ "$message" = "apt-get is missing; install the equivalents of these Debian packages: llvm-19-dev" ]
}
explains_failed_checkpoints() {
    local message
    mkdir -p "$lab/failing"
    printf '#!/bin/sh\necho cmake fails\nexit 1\n' >"$lab/failing/cmake"
    chmod 755 "$lab/failing/cmake"
    message=$(PATH="$lab/failing:$PATH" ./install --prefix "$lab/failed" --with-checkpoints 2>&1) && return 1
    printf '%s\n' "$message"
    [ ! -e "$lab/failed" ] && grep -q 'cmake fails' <<<"$message" && grep -q 'Nothing was installed' <<<"$message"
}
leaves_out_checkpoints() {
    ./install --prefix "$lab/small" | tee "$lab/message"
    grep -q '^Left out: checkpoints.*./install --with-checkpoints$' "$lab/message" && [ ! -e "$lab/small/libexec" ]
}

explains_missing_compiler() {
    local message
    mkdir -p "$lab/broken"
    printf '#!/bin/sh\nexit 1\n' >"$lab/broken/cc"
    chmod 755 "$lab/broken/cc"
    message=$(PATH="$lab/broken:$PATH" ./install --prefix "$lab/none" 2>&1) && return 1
    [ ! -e "$lab/none" ] && grep -q 'apt-get install gcc' <<<"$message" && ! grep -q Building <<<"$message"
}

check "a missing C compiler is explained before the build" explains_missing_compiler
check "missing packages are explained" explains_missing_packages

# One page for each command that `tanto help` lists, and for each of their subcommands.
man_pages() {
    local command sub
    echo ./share/man/man1/tanto.1
    for command in build run report doctor bench simulate bulk clang cache generate; do
        echo "./share/man/man1/tanto-$command.1"
        for sub in $(commands_of "$command"); do echo "./share/man/man1/tanto-$command-$sub.1"; done
    done | sort
}
commands_of() {
    case $1 in
        report) echo sessions rebuilds timings cache trace output ;;
        bench) echo compare jobs plot stat ;;
        bulk) echo init scan resolve check build status why log shell retry skip kill report publish import export simulate \
            serve token token-add token-list token-revoke client clients drain distrust push-tree ;;
        clang) echo status stop ;;
        cache) echo stat clear verify ;;
        generate) echo man bash zsh fish ;;
    esac
}

expected="./bin
./bin/ninja
./bin/tanto
./libexec
./libexec/tanto
./libexec/tanto/clang-worker
./share
./share/bash-completion
./share/bash-completion/completions
./share/bash-completion/completions/tanto
./share/doc
./share/doc/tanto
./share/doc/tanto/third-party
./share/fish
./share/fish/vendor_completions.d
./share/fish/vendor_completions.d/tanto.fish
./share/man
./share/man/man1
$(man_pages)
./share/tanto
./share/tanto/installed
./share/zsh
./share/zsh/site-functions
./share/zsh/site-functions/_tanto"
expected=$(sort <<<"$expected")

check "help" ./install --help
check "an unknown argument is refused" refuses ./install --frobnicate
check "a checkpoint program that cannot be built is explained" explains_failed_checkpoints
check "leaves out checkpoints, and says so" leaves_out_checkpoints
check "installs" ./install --prefix "$prefix" --as-ninja --with-checkpoints
check "installs these files and no others" same_tree "$prefix" "$expected"
check "installs again, with checkpoints as before" ./install --prefix "$prefix"
check "the second time changes nothing" same_tree "$prefix" "$expected"
check "the program runs" test "$("$prefix/bin/tanto" --version)" = "tanto $(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)"
check "it runs bench stat" "$prefix/bin/tanto" bench stat crates
check "the link is a ninja" test "$("$prefix/bin/ninja" --version | cut -d. -f1-3)" = 1.13.2
check "the link builds" builds_as_ninja
check "the doctor knows the link" grep -q 'ninja (this program)' <(PATH="$prefix/bin:$PATH" "$prefix/bin/tanto" doctor)
check "the manual page has a title" grep -q '^\.TH TANTO 1' "$prefix/share/man/man1/tanto.1"
check "a subcommand's page has a title" grep -q '^\.TH TANTO-BULK-BUILD 1' "$prefix/share/man/man1/tanto-bulk-build.1"

rm "$prefix/bin/ninja"
echo another >"$prefix/bin/ninja"
check "another ninja is refused" refuses ./install --prefix "$prefix" --as-ninja
check "uninstalls" ./install --uninstall --prefix "$prefix"
check "uninstalling keeps other files" same_tree "$prefix" $'./bin\n./bin/ninja'
check "another ninja keeps its content" grep -qx another "$prefix/bin/ninja"

mkdir -p "$lab/mine/bin" "$lab/mine/share"
echo mine >"$lab/mine/bin/tanto"
check "another tanto is refused" refuses ./install --prefix "$lab/mine"
rm "$lab/mine/bin/tanto"
check "installs into existing directories" ./install --prefix "$lab/mine"
check "uninstalls there" ./install --uninstall --prefix "$lab/mine"
check "keeps existing directories" same_tree "$lab/mine" $'./bin\n./share'
check "a second uninstall is refused" refuses ./install --uninstall --prefix "$lab/mine"
exit $failed
