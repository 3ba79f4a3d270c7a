package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"muster/images"
	environment "muster/internal/boot/images"
)

func (a *app) imagesBuild() *cobra.Command {
	c := &cobra.Command{
		Use:   "build RECIPE",
		Short: "Build an image from a recipe",
		Long: `Build an image from a recipe and put it into the store, as the newest of its name. RECIPE is one that Muster ships
(debian13-hpc), or the path of a folder with a recipe.yaml, as in ./my-recipe. The same packages give the same digest. With
--output the image is written to that folder instead, for ` + "`muster images import`" + ` on another host. Needs root,
mmdebstrap and squashfs-tools, and reads Debian's packages from --mirror.`,
		Example: `  muster images build debian13-hpc
  muster images build ./my-recipe --output ./my-image`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			names, _ := environment.RecipeNames(images.Recipes)
			return names, cobra.ShellCompDirectiveDefault
		},
	}
	data := dataFlag(c)
	output := c.Flags().StringP("output", "o", "", "write the image to the new folder `DIR` instead of the store")
	_ = c.MarkFlagDirname("output")
	mirror := c.Flags().String("mirror", "", "the `URL` of a Debian mirror (default: mmdebstrap's choice)")
	return a.verb(c, func(ctx context.Context, args []string) error {
		recipe, err := loadRecipe(args[0])
		if err != nil {
			return err
		}
		builder := environment.Builder{Mirror: *mirror, Progress: func(s environment.Step) { a.say("%s", s) }}
		if *output != "" {
			m, err := builder.Build(ctx, recipe, *output)
			if err == nil {
				a.out.line("%s@%s", m.Name, m.Digest)
			}
			return err
		}
		store, err := openImages(*data)
		if err != nil {
			return err
		}
		work, err := os.MkdirTemp(*data, ".image-*")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(work) }()
		built := filepath.Join(work, "image")
		if _, err := builder.Build(ctx, recipe, built); err != nil {
			return err
		}
		image, err := store.Import(ctx, built, "")
		if err != nil {
			return err
		}
		a.printImported(image)
		return nil
	})
}

// loadRecipe finds a recipe by the name of a shipped one, or by the path of its folder.
func loadRecipe(ref string) (*environment.Recipe, error) {
	var recipes fs.FS = images.Recipes
	folder := ref
	if strings.ContainsRune(ref, filepath.Separator) {
		path, err := filepath.Abs(ref)
		if err != nil {
			return nil, err
		}
		recipes, folder = os.DirFS(filepath.Dir(path)), filepath.Base(path)
	}
	recipe, err := environment.LoadRecipe(images.Recipes, recipes, folder)
	if errors.Is(err, environment.ErrNotFound) {
		shipped, _ := environment.RecipeNames(images.Recipes)
		err = fmt.Errorf("%w (shipped: %s; a folder of your own is named by its path, as in ./%s)", err,
			strings.Join(shipped, ", "), folder)
	}
	return recipe, err
}
