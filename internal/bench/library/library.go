// Package library has the recipes and suites that every site has. A recipe or suite is a file here; its sample of what a program
// wrote, in testdata, shows that it is read.
//
// What enters: nothing; its files are embedded. What leaves: their texts, for package recipe to read.
package library

import (
	"embed"
	"io/fs"
)

//go:embed *.yaml
var files embed.FS

// Files are the recipes and suites.
func Files() fs.FS { return files }
