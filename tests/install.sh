#!/usr/bin/env bash
# Installs Tanto under a prefix of its own, uses it, and uninstalls it. Prints a line for each thing that it checks.
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

everything() { (cd "$1" && find . ! -name . | sort); }

same_tree() { [ "$(everything "$1")" = "$2" ]; }

builds_as_ninja() {
    mkdir -p "$lab/build"
    printf 'rule copy\n  command = cp $in $out\nbuild out: copy in\n' >"$lab/build/build.ninja"
    echo text >"$lab/build/in"
    "$prefix/bin/ninja" -C "$lab/build" && cmp "$lab/build/in" "$lab/build/out" &&
        "$prefix/bin/ninja" -C "$lab/build" | grep -qx 'ninja: no work to do.'
}

. tests/need.sh
# In a place where LLVM's packages are missing, or do not fit.
says_what_is_missing() {
    local said
    said=$(worker_packages=(llvm-19-dev=/nowhere make=make); try_worker) && return 1
    [ "$said" = "Without the compile worker: it needs LLVM 19. To have it: apt-get install llvm-19-dev" ]
}
says_that_the_build_failed() {
    local said
    said=$(worker_packages=(make=make); build_worker() { return 1; }; try_worker) && return 1
    grep -q 'its build failed.*apt-get install' <<<"$said"
}

check "a missing worker is explained" says_what_is_missing
check "a worker that cannot be built is explained" says_that_the_build_failed

# With the compile worker, where that can be built.
worker() { if has_llvm; then printf '%s\n' "$@"; fi; }

# One page for each command that `tanto help` lists, and for each of their subcommands.
man_pages() {
    local command sub
    echo ./share/man/man1/tanto.1
    for command in build run report doctor bench simulate bulk clang generate; do
        echo "./share/man/man1/tanto-$command.1"
        for sub in $(commands_of "$command"); do echo "./share/man/man1/tanto-$command-$sub.1"; done
    done | sort
}
commands_of() {
    case $1 in
        report) echo sessions rebuilds timings trace output ;;
        bench) echo compare jobs plot stat ;;
        bulk) echo init scan resolve check build status why log shell retry skip kill report publish import export simulate ;;
        clang) echo status stop ;;
        generate) echo man bash zsh fish ;;
    esac
}

expected="./bin
./bin/ninja
./bin/tanto
$(worker ./libexec ./libexec/tanto ./libexec/tanto/clang-worker)
./share
./share/bash-completion
./share/bash-completion/completions
./share/bash-completion/completions/tanto
$(worker ./share/doc ./share/doc/tanto ./share/doc/tanto/third-party)
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
expected=$(sed '/^$/d' <<<"$expected" | sort)

check "help" ./install --help
check "an unknown argument is refused" refuses ./install --frobnicate
check "installs" ./install --prefix "$prefix" --as-ninja
check "installs these files and no others" same_tree "$prefix" "$expected"
check "installs again" ./install --prefix "$prefix"
check "the second time changes nothing" same_tree "$prefix" "$expected"
check "the program runs" test "$("$prefix/bin/tanto" --version)" = "tanto $(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)"
check "it measures" "$prefix/bin/tanto" bench stat crates
check "the link is a ninja" test "$("$prefix/bin/ninja" --version | cut -d. -f1-3)" = 1.13.2
check "the link builds" builds_as_ninja
check "the doctor knows the link" grep -q 'ninja (this program)' <(PATH="$prefix/bin:$PATH" "$prefix/bin/tanto" doctor)
check "the manual page has its name" grep -q '^\.TH TANTO 1' "$prefix/share/man/man1/tanto.1"
check "a subcommand's page has its name" grep -q '^\.TH TANTO-BULK-BUILD 1' "$prefix/share/man/man1/tanto-bulk-build.1"

rm "$prefix/bin/ninja"
echo another >"$prefix/bin/ninja"
check "another ninja is refused" refuses ./install --prefix "$prefix" --as-ninja
check "uninstalls" ./install --uninstall --prefix "$prefix"
check "uninstalling leaves what is not ours" same_tree "$prefix" $'./bin\n./bin/ninja'
check "another ninja keeps its content" grep -qx another "$prefix/bin/ninja"

mkdir -p "$lab/mine/bin" "$lab/mine/share"
echo mine >"$lab/mine/bin/tanto"
check "another tanto is refused" refuses ./install --prefix "$lab/mine"
rm "$lab/mine/bin/tanto"
check "installs where directories are" ./install --prefix "$lab/mine"
check "uninstalls there" ./install --uninstall --prefix "$lab/mine"
check "leaves the directories that were there" same_tree "$lab/mine" $'./bin\n./share'
check "a second uninstall says so" refuses ./install --uninstall --prefix "$lab/mine"
exit $failed
