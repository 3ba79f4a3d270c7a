package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) imagesImport() *cobra.Command {
	c := &cobra.Command{
		Use:   "import PATH",
		Short: "Bring an image into the store",
		Long: `Copy an image into the store, where it becomes what its name means. PATH is an image's folder (whose digest is checked), a
squashfs, or a root tarball, plain or packed by gzip, zstd or xz. The last two need --name.`,
		Example: `  muster images import ./debian12-hpc
  muster images import rocky9.tar.zst --name rocky9`,
		Args: cobra.ExactArgs(1),
	}
	data := dataFlag(c)
	name := c.Flags().String("name", "", "the image's `NAME` (default: what its manifest says)")
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		store, err := openImages(*data)
		if err != nil {
			return err
		}
		image, err := store.Import(ctx, args[0], *name)
		if err != nil {
			return err
		}
		a.printImported(image)
		return nil
	})
	return c
}
