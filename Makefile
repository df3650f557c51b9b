# The front door. `make setup` once, then `make run`.
SHELL := /bin/bash
CARGO ?= cargo

.PHONY: setup build run test bench soak lint pages install uninstall deb clean
.DEFAULT_GOAL := run

setup:
	@scripts/setup.sh

build:
	@$(CARGO) build --release --locked

# Plans, predicts, enforces and measures the walk. 3 = the machine lacks something; it was printed with what to do.
run:
	@scripts/setup.sh || [ $$? = 3 ]
	@$(CARGO) build --release --locked
	@target/release/giusto run sites/walk.yaml --trial; code=$$?; \
	echo "the program is target/release/giusto: try 'target/release/giusto --help'"; [ $$code = 3 ] || exit $$code

test: setup
	@tests/run.sh

bench: setup build
	@tests/bench.sh

soak: setup build
	@tests/soak.sh

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

clean:
	@rm -rf target out
