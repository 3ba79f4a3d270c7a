package cli

import (
	"context"

	"github.com/spf13/cobra"

	"muster/internal/admission"
	"muster/internal/drivers"
	"muster/internal/inventory"
	"muster/internal/spec"
)

func (a *app) expand() *cobra.Command {
	c := &cobra.Command{
		Use:   "expand -f FILE",
		Short: "Print a cluster file with every default filled in",
		Long: `Print a cluster file with every default and every short form written out. No controller is asked, so the same file
always gives the same result: the site's defaults are those of a site without a site file, or of the file given by --config.
` + "`muster get NAME -o yaml`" + ` shows the file of an existing cluster.`,
		Example: `  muster expand -f cluster.yaml
  muster expand -f cluster.yaml --config site.yaml`,
		Args: cobra.NoArgs,
	}
	path := fileFlag(c)
	site := c.Flags().String("config", "", "the site `FILE` whose defaults to use")
	_ = c.MarkFlagFilename("config", "yaml", "yml")
	return a.verb(c, func(context.Context, []string) error {
		file, err := a.readFile(*path)
		if err != nil {
			return err
		}
		catalogue, err := inventory.ReadCatalogue(*site)
		if err != nil {
			return usageError{err}
		}
		resolved, err := spec.Resolve(file.doc.Cluster, admission.Defaults(catalogue, drivers.Substrates()))
		if wrong, ok := err.(spec.Diagnostics); ok {
			return file.doc.Locate(wrong)
		}
		if err != nil {
			return err
		}
		a.out.text(string(spec.Render(resolved)))
		return nil
	})
}
