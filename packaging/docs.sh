#!/usr/bin/env bash
# The documentation as a site, into out/docs: every page of the repository, and the reference of import giusto from its
# docstrings. It can be read without a network. A link that leads nowhere, or a name that is not there, is an error.
#   packaging/docs.sh
# Fetches Sphinx and MyST, pinned, from PyPI once, into target/docs. Exit: 0 done, 1 an error, 77 the packages cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/flags.sh
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
venv=$target/docs/venv pages=$target/docs/pages
pins=docs/requirements.txt
if ! cmp -s "$pins" "$venv/pins"; then
	rm -rf "$venv"
	if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$pins"; }; then
		echo "the packages of $pins cannot be installed: they need Python 3.9 or newer with venv, and PyPI" >&2
		exit 77
	fi
	cp "$pins" "$venv/pins"
fi
cargo build --release --workspace --lib --locked --quiet
rm -rf "$pages" out/docs
mkdir -p "$pages"
# The repository as it is, so that links between its folders hold; the library of Python as a wheel would have it.
git ls-files -z | xargs -0 cp --parents -t "$pages"
cp "$target/release/lib_giusto.so" "$pages/python/giusto/_giusto.abi3.so"
PYTHONPATH=$pages/python "$venv/bin/sphinx-build" -q -n -W --keep-going -c docs "$pages" out/docs
# Pages lie as in the repository; who opens the site begins here.
begin=docs/contents.html
[ -e "out/docs/$begin" ]
cat >out/docs/index.html <<HTML
<!doctype html><title>Giusto</title><meta http-equiv="refresh" content="0; url=$begin"><a href="$begin">Giusto</a>
HTML
echo "out/docs/index.html"
