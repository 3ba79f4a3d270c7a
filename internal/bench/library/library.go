// Package library has the recipes and suites that every site has. A recipe or suite is a file here; its sample of what a program
// wrote, in testdata, shows that it is read.
package library

import (
	"embed"
	"io/fs"
)

//go:embed *.yaml
var files embed.FS

// Files are the recipes and suites.
func Files() fs.FS { return files }
