// Package ui carries the console as it was built, so that a binary needs nothing beside it, and its build no Node.
// docs/decisions/console.md says why the built files are checked in.
package ui

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Files are those of the console, with index.html at the top.
func Files() (fs.FS, error) { return fs.Sub(dist, "dist") }
