// Package shell writes what shells read.
package shell

import "strings"

// Quoted is a word, whatever is in it, as a shell reads it.
func Quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
