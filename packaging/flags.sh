# Sourced: no path of this machine gets into what is compiled. What `make test` builds and what is packaged is one build.
export RUSTFLAGS="--remap-path-prefix=$PWD=giusto --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
