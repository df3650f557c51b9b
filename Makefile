# The front door. `make setup` once, then `make run`.
SHELL := /bin/bash
CARGO ?= cargo

.PHONY: setup build kernel run path kubernetes check test bench soak status lint pages install uninstall deb wheels docs clean
.DEFAULT_GOAL := run

setup:
	@scripts/setup.sh

build:
	@$(CARGO) build --release --locked

# What `giusto run --backend kernel` needs beside it (docs/kernel.md).
kernel:
	@compute/kernel/build.sh

# Measures what requests cost here, plans, enforces, judges. What it could not do (exit codes 1, 3, 5, 6 of giusto: docs/status.md) was
# printed with what to do, and is no failure of make. Without Redis a synthetic service stands in.
run:
	@scripts/setup.sh run || [ $$? = 3 ]
	@$(CARGO) build --release --locked
	@site=sites/first.yaml; command -v redis-server >/dev/null || { \
	  echo "redis-server is missing: a synthetic service stands in (sites/first-spin.yaml)"; site=sites/first-spin.yaml; \
	  $(CARGO) build --release --locked -p giusto-studies --bin giusto-spin; }; \
	target/release/giusto run $$site --trial; code=$$?; \
	echo "the program is target/release/giusto: try 'target/release/giusto --help'"; \
	case $$code in 0|1|3|5|6) ;; *) exit $$code ;; esac

# A promise over three services (docs/paths.md), without the plan and with it, in two minutes. Exit codes as above.
path:
	@scripts/setup.sh run || [ $$? = 3 ]
	@$(CARGO) build --release --locked
	@$(CARGO) build --release --locked -p giusto-studies --bin giusto-relay
	@target/release/giusto run sites/path.yaml --trial --at-most 90s; code=$$?; \
	case $$code in 0|1|3|5|6) ;; *) exit $$code ;; esac

# Promises for pods on a real Kubernetes of one node, which is built from Go modules once (docs/kubernetes.md). Root.
kubernetes: build
	@tests/kubernetes.sh || [ $$? = 77 ]

# Two minutes, no root: formats, clippy and unit tests of the rooms that differ from main.
check:
	@tests/check.sh

test: setup
	@tests/run.sh

bench: setup build
	@tests/bench.sh

soak: setup build
	@tests/soak.sh

# Runs the command of each claim in docs/status/ whose code has changed since its last result, and writes the pages. Hours.
status: setup build
	@scripts/status.py run

lint: setup
	@tests/lint.sh

# What `make install` installs besides the program; builds both, so that the installing root needs no Rust.
pages: setup build
	@$(CARGO) build --release --locked --workspace --example pages

# PREFIX (/usr/local) and DESTDIR as usual.
install:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' packaging/install.sh install

uninstall:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' packaging/install.sh uninstall

deb: setup
	@packaging/deb.sh

# A wheel of `import giusto` for CPython 3.9 and newer, and a source distribution, in out/wheels; for Linux of Debian 12's age.
wheels: setup
	@packaging/wheels.sh

# The documentation as a site that needs no network, links checked, in out/docs.
docs: setup
	@packaging/docs.sh

clean:
	@rm -rf target out
