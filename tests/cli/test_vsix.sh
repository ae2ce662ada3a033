#!/bin/sh
# SPDX-License-Identifier: MIT
# test_vsix.sh SOURCE BUILD - the extension of VS Code as scripts/vsix packs it: what is in it, and what it
# starts. Without npm's vsce, which scripts/npm-packages leaves in BUILD/npm, that is skipped. TAP.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
source=$1
vsce=$2/npm/node_modules/.bin/vsce
need python3
mkdir "$tmp/bin" "$tmp/packages"

VSCE=$tmp/bin/nosuch sh "$source/scripts/vsix" "$tmp/packages" >"$tmp/out" 2>"$tmp/err" &&
	[ ! -s "$tmp/out" ] && [ -z "$(ls "$tmp/packages")" ] &&
	[ "$(cat "$tmp/err")" = 'vsix: vsce of npm is missing; the extension of VS Code is not packaged' ]
ok without_vsce_one_line_says_so_and_nothing_fails $?

printf '#!/bin/sh\necho cause >&2\nexit 3\n' >"$tmp/bin/vsce" && chmod 755 "$tmp/bin/vsce"
! LOGS=$tmp/logs VSCE=$tmp/bin/vsce sh "$source/scripts/vsix" "$tmp/packages" >"$tmp/out" 2>"$tmp/err" &&
	grep -q '^    cause' "$tmp/err" && [ -z "$(ls "$tmp/packages")" ]
ok a_vsce_that_fails_is_an_error_with_its_cause $?

name=the_extension_has_its_manifest_the_adapter_and_no_stray_file
if ! [ -x "$vsce" ]; then
	skip $name 'vsce is missing: scripts/install-deps test, with npm'
else
	LOGS=$tmp/logs VSCE=$vsce sh "$source/scripts/vsix" "$tmp/packages" >"$tmp/out" 2>"$tmp/err" &&
		python3 - "$tmp/packages" "$source" >>"$tmp/out" 2>>"$tmp/err" <<'END'
import json, os, re, sys, zipfile

folder, source = sys.argv[1:]
(name,) = os.listdir(folder)
version = re.search(r"version: '([^']*)'", open(source + "/meson.build").read()).group(1)
assert name == f"trapline-{version}.vsix", name
vsix = zipfile.ZipFile(os.path.join(folder, name))
assert vsix.testzip() is None
files = {"[Content_Types].xml", "extension.vsixmanifest", "extension/LICENSE.txt", "extension/package.json"}
assert set(vsix.namelist()) == files, vsix.namelist()
manifest = vsix.read("extension.vsixmanifest").decode()
assert f'Version="{version}"' in manifest and 'Id="trapline"' in manifest, manifest
package = json.loads(vsix.read("extension/package.json"))
(debugger,) = package["contributes"]["debuggers"]
assert debugger["type"] == "trapline", debugger
# The editor starts this.
assert [debugger["program"], *debugger["args"]] == ["/usr/bin/env", "trapline", "dap"], debugger
assert set(debugger["configurationAttributes"]) == {"attach", "launch"}, debugger
assert "main" not in package and "devDependencies" not in package, package
assert vsix.read("extension/LICENSE.txt") == open(source + "/LICENSE", "rb").read()
END
	ok $name $?
fi
finished
