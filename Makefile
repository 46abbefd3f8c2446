# SPDX-License-Identifier: GPL-2.0
# Entry points for people; Kbuild beside it is what the kernel's build system reads.

MAKEFLAGS += --no-print-directory
SCRIPTS := $(CURDIR)/scripts
# A shell script is passed as it stands, dollar signs and all.
override CMD := $(value CMD)
export KDIR KERNEL MODULE SUITES CMD

.PHONY: help
help: ## This list
	@echo "Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: ## The whole story: build, boot a stock Debian 7.3 guest, NVMe over RDMA over this module, a summary table
	@$(SCRIPTS)/run.sh

.PHONY: module
module: ## Build rdma_rxe.ko for the Debian kernel, or for KDIR=<your configured kernel tree>
	@$(SCRIPTS)/module.sh stock

.PHONY: clippy
clippy: ## Lint the module with the kernel's clippy settings
	@$(SCRIPTS)/module.sh stock CLIPPY=1

.PHONY: kernel
kernel: ## Make only the toolchain root and the prepared kernel tree
	@$(SCRIPTS)/kernel.sh

.PHONY: debug-kernel
debug-kernel: ## Build the debug kernel (KASAN, lockdep, kmemleak, fault injection); 40 CPU minutes, kept in the cache
	@$(SCRIPTS)/debug-kernel.sh

.PHONY: guest
guest: ## Run CMD='shell commands' in a guest with the module of this checkout (MODULE=stock: with the C driver; KERNEL=debug)
	@$(SCRIPTS)/guest.sh --kernel $(or $(KERNEL),stock) --module $(or $(MODULE),ours) $(GUEST_OPTIONS) -- "$$CMD"

.PHONY: shell
shell: ## Interactive guest with the module loaded
	@$(SCRIPTS)/guest.sh --kernel $(or $(KERNEL),stock) --module $(or $(MODULE),ours) $(GUEST_OPTIONS) --timeout 86400 --shell

.PHONY: test
test: ## Gates and guest suites (SUITES='a b': only these; KERNEL=debug; MODULE=stock: the C driver's verdicts)
	@$(SCRIPTS)/test.sh

.PHONY: blktests
blktests: ## blktests' srp, nvme and nvmeof-mp groups (BLKTESTS=<built checkout>, BLKTESTS_MP=<one with nvmeof-mp>), beside the C driver's verdicts
	@$(SCRIPTS)/blktests.sh

.PHONY: soak
soak: ## The kernel consumer's four suites for ten minutes each (SOAK=<seconds>), on the debug kernel (KERNEL=stock)
	@KERNEL=$(or $(KERNEL),debug) RXE_SOAK=$(or $(SOAK),600) SUITES='$(or $(SUITES),posts flowcontrol teardown keys)' $(SCRIPTS)/test.sh

.PHONY: bench
bench: ## This module against the C driver: wall clock and counted instructions, as table, JSON and chart
	@$(SCRIPTS)/bench.sh

.PHONY: install
install: ## Install the module for the running kernel (updates/, depmod)
	@$(SCRIPTS)/install.sh

.PHONY: clean
clean: ## Remove what was built in the checkout
	@$(SCRIPTS)/clean.sh
