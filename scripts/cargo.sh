#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# cargo.sh ARGUMENT...: cargo for rust/proto, in the current directory, with the Rust release that builds the module.
#
# The toolchain root's own cargo is used, so that lints and formatting do not depend on the host. RXE_CARGO=host in the
# environment takes the host's instead. Build products go to out/cargo, downloaded crates to the cache.
. "$(dirname "$0")/lib.sh"

if [ "${RXE_CARGO:-}" = host ]; then
	command -v cargo >/dev/null || die "RXE_CARGO=host, but this host has no cargo."
	exec cargo "$@"
fi

root=$("$RXE_TOP/scripts/toolchain.sh")
run() { "$RXE_TOP/scripts/in-toolchain.sh" --root "$root" "$@"; }

add_cargo() {
	[ ! -x "$root/usr/bin/cargo" ] || return 0
	say "toolchain: adding cargo"
	{ run apt-get -q update && run env DEBIAN_FRONTEND=noninteractive apt-get -q -o APT::Sandbox::User=root install -y --no-install-recommends cargo; } \
		>"$RXE_CACHE/cargo-install.log" 2>&1 || die "cargo could not be added to the toolchain root (log: $RXE_CACHE/cargo-install.log)."
}
with_lock toolchain add_cargo

mkdir -p "$RXE_CACHE/cargo" "$RXE_TOP/out/cargo"
vars=(CARGO_HOME="$RXE_CACHE/cargo" CARGO_TARGET_DIR="$RXE_TOP/out/cargo" CARGO_TERM_COLOR=never RUSTDOCFLAGS="${RUSTDOCFLAGS:-}")
# The host may know certificate authorities that the root does not.
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
	export RXE_BIND=/etc/ssl${RXE_BIND:+:$RXE_BIND}
	vars+=(CARGO_HTTP_CAINFO=/etc/ssl/certs/ca-certificates.crt)
fi
run env -u SSL_CERT_FILE -u SSL_CERT_DIR "${vars[@]}" cargo "$@"
