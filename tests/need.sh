# Checks for and installs the tools of the scripts at the root. Sourced in the root of the repository by ./test, ./demo
# and ./install. Installs only missing tools, so that a second run needs no network.

ninja_version=1.13.2
meson_version=1.12.1
meson_python_version=0.22.1
make_version=4.4.1

say() { printf '%s\n' "$*"; }

die() {
    printf '%s\n' "$*" >&2
    exit 1
}

need_rust() {
    command -v cargo >/dev/null && command -v rustc >/dev/null ||
        die "Tanto needs Rust 1.95 or newer, and cargo is not in PATH. See https://rustup.rs"
    local version
    version=$(rustc --version)
    [[ $version =~ ^rustc\ ([0-9]+)\.([0-9]+) ]] || die "cannot read the version of rustc: $version"
    (( BASH_REMATCH[1] > 1 || BASH_REMATCH[2] >= 95 )) ||
        die "Tanto needs Rust 1.95 or newer; this is $version. With rustup: rustup update stable"
}

# SQLite, which is part of Tanto, is compiled with cc; rustc links with it.
need_cc() {
    printf '#include <stdio.h>\nint main(void) { return 0; }\n' | cc -x c - -o /dev/null 2>/dev/null ||
        die "Tanto needs a C compiler, and cc is missing or cannot compile. On Debian or Ubuntu: apt-get install gcc libc6-dev"
}

# missing_packages PACKAGE=PROBE...: prints the missing packages. A probe is a command or the path of a file.
missing_packages() {
    local want missing=()
    for want in "$@"; do
        case ${want#*=} in
            /*) [ -e "${want#*=}" ] ;;
            *) command -v "${want#*=}" >/dev/null ;;
        esac || missing+=("${want%%=*}")
    done
    printf '%s\n' "${missing[*]}"
}

# need_packages PACKAGE=PROBE...: installs the missing packages.
need_packages() {
    local missing
    read -r -a missing < <(missing_packages "$@")
    if [ ${#missing[@]} -gt 0 ]; then install_packages "${missing[@]}"; fi
}

install_packages() {
    command -v apt-get >/dev/null ||
        die "apt-get is missing; install the equivalents of these Debian packages: $*"
    local root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "As root, run: apt-get install $*"
        root=(sudo)
    fi
    say "Installing from Debian: $*"
    local install=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@")
    "${install[@]}" >/dev/null 2>&1 && return
    "${root[@]}" apt-get -qq update || die "apt-get update failed: is there a network? Needed: $*"
    "${install[@]}" >/dev/null || die "apt-get cannot install: $*"
}

# Installs from PyPI into .venv: the ninja that Tanto is compared with, Meson for projects and for wheels, and a newer make than
# Debian's.
need_venv() {
    [ -d "$(echo .venv/lib/python3*/site-packages/meson_python-$meson_python_version.dist-info)" ] &&
        [ "$(.venv/bin/meson --version 2>/dev/null)" = "$meson_version" ] &&
        [[ $(.venv/bin/ninja --version 2>/dev/null) = "$ninja_version"* ]] &&
        [[ $(.venv/bin/make --version 2>/dev/null) = "GNU Make $make_version"* ]] && return
    need_packages python3=python3
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages python3-venv
    say "Installing from PyPI into .venv: ninja $ninja_version, meson $meson_version, meson-python $meson_python_version, gnumake $make_version"
    python3 -m venv .venv || die "python3 cannot create .venv"
    .venv/bin/pip install -q "ninja==$ninja_version" "meson==$meson_version" "meson-python==$meson_python_version" \
        "gnumake==$make_version" ||
        die "pip cannot install ninja $ninja_version, meson $meson_version, meson-python $meson_python_version and gnumake $make_version: is there a network?"
}

llvm=/usr/lib/llvm-19

worker_packages=(clang-19=clang-19 lld-19=$llvm/bin/ld.lld cmake=cmake g++=g++ llvm-19-dev=$llvm/lib/libLLVMSupport.a
    libclang-19-dev=$llvm/lib/libclangFrontend.a liblld-19-dev=$llvm/lib/liblldELF.a libpolly-19-dev=$llvm/lib/libPolly.a
    zlib1g-dev=/usr/include/zlib.h libzstd-dev=/usr/include/zstd.h)

need_llvm() { need_packages "${worker_packages[@]}"; }

# Builds the checkpoint program, target/clang-worker/clang-worker, with Tanto itself.
build_worker() {
    local place=target/clang-worker/build
    mkdir -p "$place"
    cmake -S clang-worker -B "$place" -G Ninja -DCMAKE_MAKE_PROGRAM="$PWD/target/as-ninja/ninja" \
        -DCMAKE_CXX_COMPILER=clang++-19 -DLLVM_DIR="$llvm/lib/cmake/llvm" >"$place.log" 2>&1 &&
        cmake --build "$place" >>"$place.log" 2>&1 || { cat "$place.log"; return 1; }
    # A linker writes its output page by page, and the kernel caches and maps it in pages. This copy is written and mapped
    # in large pieces, which makes forks faster.
    if [ "$place/clang-worker" -nt "${place%/*}/clang-worker" ]; then
        rm -f "${place%/*}/clang-worker"
        cat "$place/clang-worker" >"${place%/*}/clang-worker.new" && chmod 755 "${place%/*}/clang-worker.new" &&
            mv "${place%/*}/clang-worker.new" "${place%/*}/clang-worker"
    fi
}

# link_built PROFILE [PROGRAM]: hard-links a program of this profile to target/PROFILE/PROGRAM, a path without the name of
# the target.
link_built() {
    local program=${2-tanto}
    mkdir -p "target/$1"
    ln -f "target/$(rustc --print host-tuple)/$1/$program" "target/$1/${program##*/}"
}

# Builds target/demo/tanto, which compiles faster than the release program, and links target/demo/ninja to it.
build_demo() {
    cargo build --profile demo --locked -p tanto && link_built demo || return
    ln -sf tanto target/demo/ninja
}

# Builds the release program, target/release/tanto, and links target/as-ninja/ninja to it.
build_tanto() {
    cargo build --release --locked -p tanto && link_built release || return
    mkdir -p target/as-ninja
    ln -sf ../release/tanto target/as-ninja/ninja
}
