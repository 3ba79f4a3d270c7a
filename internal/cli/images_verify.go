package cli

import (
	"context"

	"github.com/spf13/cobra"

	"muster/internal/boot/images"
	"muster/internal/kit/words"
)

func (a *app) imagesVerify() *cobra.Command {
	c := &cobra.Command{
		Use:   "verify NAME",
		Short: "Check that an image is undamaged and works",
		Long: `Compute an image's digest again, then run each of its acceptance checks in a new container without a network. NAME may include a
digest or the start of one, as in debian13-hpc@sha256:1f0c.`,
		Example: `  muster images verify debian13-hpc`,
		Args:    cobra.ExactArgs(1),
	}
	data := dataFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		store, err := openImages(*data)
		if err != nil {
			return err
		}
		image, err := store.Get(args[0])
		if err != nil {
			return err
		}
		if err := store.Verify(ctx, image.Ref()); err != nil {
			return err
		}
		a.say("%s is undamaged: %s, %s", image.Name, words.Size(image.Size), image.Digest)
		verdicts := 0
		if err := images.Accept(ctx, image.Squashfs(), image.Manifest, func(v images.Verdict) {
			verdicts++
			a.say("%s", v)
		}); err != nil {
			return err
		}
		a.say("%s passes its %s", image.Name, words.Count(verdicts, "check"))
		return nil
	})
}
