package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"muster/internal/boot/images"
	"muster/internal/rack"
	"muster/internal/spec"
)

// The exit codes, which scripts may branch on.
const (
	exitOK         = 0
	exitOther      = 1
	exitInvalid    = 2
	exitNoCapacity = 3
	exitQuota      = 4
	exitConflict   = 5
	exitNotFound   = 6
)

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitCode is the code of another program, which has said all there is to say.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// silent is an error that was told already; only its exit code is left.
type silent struct{ error }

func (e silent) Unwrap() error { return e.error }

// codes: code of an API problem → exit code.
func codes(problem string) int {
	return cmp.Or(map[string]int{"invalid": exitInvalid, "no-capacity": exitNoCapacity, "quota": exitQuota, "budget": exitQuota,
		"conflict": exitConflict, "not-found": exitNotFound}[problem], exitOther)
}

func exitOf(err error) int {
	var code exitCode
	var problem *problemError
	var misuse usageError
	var wrong spec.Diagnostics
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &problem):
		return codes(problem.Code)
	case errors.As(err, &misuse), errors.As(err, &wrong), errors.Is(err, images.ErrName), errors.Is(err, images.ErrAmbiguous):
		return exitInvalid
	case errors.Is(err, images.ErrNotFound), errors.Is(err, rack.ErrNoRack), errors.Is(err, rack.ErrNoMachine):
		return exitNotFound
	case errors.Is(err, rack.ErrConflict):
		return exitConflict
	}
	return exitOther
}

// report tells an error and returns its exit code. What is wrong with a file is told as compilers do, so that editors
// find the place.
func (a *app) report(failed *cobra.Command, err error) int {
	if err != nil && !a.acting {
		err = usageError{err} // cobra's own: an unknown command, a missing flag
	}
	var code exitCode
	var told silent
	var misuse usageError
	var wrong spec.Diagnostics
	var problem *problemError
	switch {
	case err == nil, errors.As(err, &code), errors.As(err, &told):
	case errors.As(err, &misuse):
		a.complain(err.Error())
		a.say("`%s --help` shows how it is used", failed.CommandPath())
	case errors.As(err, &problem) && len(problem.Errors) > 0:
		a.tellDiagnostics(a.placed(problem.Errors))
	case errors.As(err, &wrong):
		a.tellDiagnostics(a.placed(wrong))
	default:
		a.complain(err.Error())
	}
	return exitOf(err)
}

// placed puts what is wrong into the file that was read. Without one, places are in a text that the user never saw.
func (a *app) placed(wrong spec.Diagnostics) spec.Diagnostics {
	for i := range wrong {
		switch d := &wrong[i]; {
		case d.File != "": // a list of machines
		case a.file == "":
			d.Line, d.Col = 0, 0
		case d.Line > 0:
			d.File = a.file
		}
	}
	return wrong
}

// tellDiagnostics prints one thing wrong a line. Those with a place in a file begin with it.
func (a *app) tellDiagnostics(wrong spec.Diagnostics) {
	for _, d := range wrong {
		if d.File != "" {
			a.say("%s", d.Error())
		} else {
			a.complain(d.Error())
		}
	}
}

// complain prints an error.
func (a *app) complain(text string) {
	a.say("%s %s", a.paint(a.err, red, "error:"), below(text))
}

// say prints a line for people.
func (a *app) say(format string, args ...any) {
	a.err.line(format, args...)
}

// unknownCommand says what may have been meant.
func unknownCommand(parent *cobra.Command, word string) error {
	if parent.SuggestionsMinimumDistance <= 0 {
		parent.SuggestionsMinimumDistance = 2
	}
	text := fmt.Sprintf("unknown command %q for %q", word, parent.CommandPath())
	if near := parent.SuggestionsFor(word); len(near) > 0 {
		text += "\n\nDid you mean this?\n\t" + strings.Join(near, "\n\t")
	}
	return usageError{errors.New(text)}
}

// countArguments makes a command, and those below it, tell a wrong number of arguments with what would be right.
func countArguments(c *cobra.Command) {
	for _, below := range c.Commands() {
		countArguments(below)
	}
	accepts := c.Args
	if accepts == nil || c.HasSubCommands() || len(c.ValidArgs) > 0 {
		return // these tell what may be written
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := accepts(c, args)
		if err == nil {
			return nil
		}
		right := strings.TrimSuffix(c.UseLine(), " [flags]")
		for n := range args {
			if accepts(c, args[:n]) == nil {
				return usage("%q is one argument too many: `%s`", args[n], right)
			}
		}
		return usage("an argument is missing: `%s`", right)
	}
}
