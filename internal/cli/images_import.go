package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) imagesImport() *cobra.Command {
	c := &cobra.Command{
		Use:   "import PATH",
		Short: "Import an image into the store",
		Long: `Copy an image into the store, as the newest of its name. PATH is an image's folder (its digest is checked), a squashfs, or a
tarball of a root filesystem, plain or compressed by gzip, zstd or xz. The last two need --name.`,
		Example: `  muster images import ./debian13-hpc
  muster images import rocky9.tar.zst --name rocky9`,
		Args: cobra.ExactArgs(1),
	}
	data := dataFlag(c)
	name := c.Flags().String("name", "", "the image's `NAME` (default: what its manifest says)")
	return a.verb(c, func(ctx context.Context, args []string) error {
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
}
