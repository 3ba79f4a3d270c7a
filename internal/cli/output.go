package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/kinds"
	"muster/internal/kit/lists"
)

// format is how objects are printed.
type format string

const (
	asTable format = "table"
	asJSON  format = "json"
	asYAML  format = "yaml"
)

func formats() []string { return []string{string(asTable), string(asJSON), string(asYAML)} }

// Set is for the flag.
func (f *format) Set(text string) error {
	if !slices.Contains(formats(), text) {
		return fmt.Errorf("must be one of %s", strings.Join(formats(), ", "))
	}
	*f = format(text)
	return nil
}

func (f *format) String() string { return string(*f) }

// Type is for the flag's help.
func (f *format) Type() string { return "FORMAT" }

// formatFlag gives a command -o.
func formatFlag(c *cobra.Command) *format {
	f := asTable
	c.Flags().VarP(&f, "output", "o", "how to print: table, or the API's objects as json or yaml")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats(), cobra.ShellCompDirectiveNoFileComp))
	return &f
}

// phaseFlag gives a command --phase, which takes the phases of a kind.
func phaseFlag(c *cobra.Command, phase *apiv1.Phase, of core.Kind) {
	words := lists.Map(kinds.Phases(of), func(p core.Phase) string { return string(p) })
	c.Flags().Func("phase", "only those in this `PHASE`: "+strings.Join(words, ", "), func(text string) error {
		if *phase = apiv1.Phase(text); !slices.Contains(words, text) {
			return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		return nil
	})
	_ = c.RegisterFlagCompletionFunc("phase", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// show prints the object of the API that an operation answers; table is for people.
func show[In, T any](ctx context.Context, a *app, op apiv1.Op[In, T], in In, output format, table func(T)) error {
	object, raw, err := op.Call(ctx, a, in)
	if err != nil {
		return err
	}
	return output.print(a.out, raw, func() { table(object) })
}

// showAll prints all that a list of the API has, each item as it came; table is for people.
func showAll[In, T any](ctx context.Context, a *app, op apiv1.Op[In, apiv1.List[T]], in In, output format,
	table func([]T)) error {
	if output == asTable {
		items, err := apiv1.All(ctx, a, op, in)
		if err != nil {
			return err
		}
		table(items)
		return nil
	}
	items, err := apiv1.All(ctx, a, apiv1.Op[In, apiv1.List[json.RawMessage]](op), in)
	if err != nil {
		return err
	}
	var list bytes.Buffer
	whole := json.NewEncoder(&list)
	whole.SetEscapeHTML(false)
	if err := whole.Encode(apiv1.List[json.RawMessage]{Items: items}); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return output.print(a.out, list.Bytes(), nil)
}

// print writes an object of the API as it came, or calls rows for a table.
func (f format) print(s *screen, raw []byte, rows func()) error {
	switch f {
	case asJSON:
		var indented bytes.Buffer
		if err := json.Indent(&indented, bytes.TrimSpace(raw), "", "  "); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		indented.WriteByte('\n')
		_, err := s.raw().Write(safeJSON(indented.Bytes()))
		return err
	case asYAML:
		text, err := safeYAML(raw)
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		_, err = s.raw().Write(text)
		return err
	}
	rows()
	return nil
}

// listVerb is the verb "list" of a group of commands, or "ls". It takes no arguments.
func listVerb(short, long, example string) *cobra.Command {
	return &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: short, Long: long, Example: example, Args: cobra.NoArgs}
}

// listing makes a command list all there is, in a table or as the API says it; its arguments go into places of in.
func listing[In, T any](a *app, c *cobra.Command, op apiv1.Op[In, apiv1.List[T]], in *In, rows func([]T),
	places ...*string) *cobra.Command {
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		into(places, args)
		return showAll(ctx, a, op, *in, *output, rows)
	})
}

// showing makes a command show the object of the API that an operation answers; its arguments go into places of in.
func showing[In, T any](a *app, c *cobra.Command, op apiv1.Op[In, T], in *In, table func(T), places ...*string) *cobra.Command {
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		into(places, args)
		return show(ctx, a, op, *in, *output, table)
	})
}

// doing makes a command have an operation carried out whose answer tells nothing, and say that it is done. Its arguments go into
// places of in, and are the format's values.
func doing[In, T any](a *app, c *cobra.Command, op apiv1.Op[In, T], in *In, format string, places ...*string) *cobra.Command {
	return a.verb(c, func(ctx context.Context, args []string) error {
		into(places, args)
		return done(ctx, a, op, *in, format, lists.Map(args, func(arg string) any { return arg })...)
	})
}

// into writes each argument to its place.
func into(places []*string, args []string) {
	for i, arg := range args {
		*places[i] = arg
	}
}

// done has an operation carried out whose answer tells nothing, and says that it is done.
func done[In, Out any](ctx context.Context, a *app, op apiv1.Op[In, Out], in In, format string, args ...any) error {
	if _, _, err := op.Call(ctx, a, in); err != nil {
		return err
	}
	a.say(format, args...)
	return nil
}
