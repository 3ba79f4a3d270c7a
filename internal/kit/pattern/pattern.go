// Package pattern has regular expressions that are compiled when they are first used. This program is started once a node and
// once a command, and to compile all that it knows took a third of the time that it needs to begin.
package pattern

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression. All methods may be called from any goroutine.
type Pattern struct {
	text    string
	compile func() *regexp.Regexp
}

// New is the pattern of a text. One that is no regular expression panics at its first use: each is to be used by some test.
func New(text string) *Pattern {
	return &Pattern{text, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
}

// Regexp is the compiled expression, for what Pattern has no method.
func (p *Pattern) Regexp() *regexp.Regexp { return p.compile() }

// MatchString is that of regexp.Regexp.
func (p *Pattern) MatchString(s string) bool { return p.compile().MatchString(s) }

// FindStringSubmatch is that of regexp.Regexp.
func (p *Pattern) FindStringSubmatch(s string) []string { return p.compile().FindStringSubmatch(s) }

// String is the text.
func (p *Pattern) String() string { return p.text }
