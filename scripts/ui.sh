#!/usr/bin/env bash
# Builds the console into ui/dist, or into the folder given, and looks through its sources first.
set -euo pipefail
cd "$(dirname "$0")/../ui"
into=${1:-$PWD/dist}
[[ tools/node_modules/.package-lock.json -nt tools/package-lock.json ]] || { echo "ui: its tools are not there; \`make ui\` installs them" >&2; exit 1; }
# Types of the API, by a program that wants another TypeScript than the console has.
tools/node_modules/.bin/openapi-typescript ../api/openapi.yaml -o src/api.gen.ts >/dev/null
[[ node_modules/.package-lock.json -nt package-lock.json ]] || npm ci --silent --no-audit --no-fund
npm run --silent check
npm run --silent test -- --reporter=dot
npm run --silent build -- --logLevel warn --emptyOutDir --outDir "$into"
scripts=$(git ls-files --cached --others --exclude-standard -- src public tools index.html '*.json' vite.config.ts | LC_ALL=C sort -u)
# shellcheck disable=SC2086 # names hold no spaces
[[ $into != "$PWD/dist" ]] || cat $scripts ../api/openapi.yaml | sha256sum | cut -d ' ' -f 1 >sources.sha256
