package cli

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"muster/internal/spec"
)

func (a *app) spec() *cobra.Command {
	schema := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of cluster files",
		Long: `Print the JSON Schema (2020-12) of cluster files. With it, an editor completes and checks cluster files as you
type.`,
		Example: `  muster spec schema > cluster.schema.json`,
		Args:    cobra.NoArgs,
		RunE: a.do(func(context.Context, []string) error {
			_, err := a.out.raw().Write(spec.Schema())
			return err
		}),
	}
	fields := &cobra.Command{
		Use:   "fields",
		Short: "List the fields of cluster files",
		Long: `List every field of a cluster file with its type, its default, and how a change reaches a running cluster: live
(at once), rolling (node by node), drains-queue (after the queue's jobs have ended), never (refused). Fields marked "later" are
not available yet.`,
		Example: `  muster spec fields`,
		Args:    cobra.NoArgs,
		RunE: a.do(func(context.Context, []string) error {
			t := newTable("FIELD", "TYPE", "DEFAULT", "EFFECT", "MEANING")
			for _, f := range spec.Fields() {
				t.row(f.Path, fieldType(f), fieldDefault(f), fieldEffect(f), fieldMeaning(f))
			}
			t.print(a.out)
			return nil
		}),
	}
	return group(&cobra.Command{
		Use:   "spec",
		Short: "Describe cluster files",
		Long: `A cluster file is strict YAML. Only name and nodes are required. These commands print all other fields, for people
and for editors.`,
		Example: `  muster spec fields
  muster spec schema > cluster.schema.json`,
	}, schema, fields)
}

func fieldType(f spec.Field) string {
	return cmp.Or(strings.Join(f.Values, "|"), f.Type)
}

func fieldDefault(f spec.Field) string {
	if f.Required {
		return "(required)"
	}
	return f.Default
}

// fieldEffect is the effect of a change; of less, where that differs.
func fieldEffect(f spec.Field) string {
	if f.Less == "" || f.Less == f.Effect {
		return string(f.Effect)
	}
	return string(f.Effect) + ", less: " + string(f.Less)
}

func fieldMeaning(f spec.Field) string {
	return f.Doc + textIf(f.NotYet != "", " Later: "+f.NotYet+".")
}
