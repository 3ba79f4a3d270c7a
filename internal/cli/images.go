package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/boot/images"
	"muster/internal/kit/words"
)

func (a *app) images() *cobra.Command {
	return group(&cobra.Command{
		Use:   "images",
		Short: "List, build, import and verify environment images",
		Long: `An image is the environment that nodes boot: an operating system with Slurm, MPI and tools, addressed by its digest. Anybody can
list images through the controller. Building, importing and verifying them is for operators: those commands run as root on the
controller's host and use the image store in the data directory, whether or not the controller is running.`,
		Example: `  muster images list
  muster images build debian13-hpc
  muster images verify debian13-hpc`,
	}, a.imagesList(), a.imagesBuild(), a.imagesImport(), a.imagesVerify())
}

func (a *app) imagesList() *cobra.Command {
	c := listVerb("List images",
		`List the images that clusters can use. A name without a digest means the newest image of that name.`,
		`  muster images list`)
	return listing(a, c, apiv1.ListImages, &apiv1.Page{}, func(list []apiv1.Image) {
		t := newTable("NAME", "DIGEST", "ARCH", "SIZE", "CREATED", "DRIVERS", "SUMMARY")
		for _, i := range list {
			t.row(i.Name, shortDigest(i.Digest), i.Arch, words.Size(i.Size), i.Created.Format("2006-01-02"),
				strings.Join(i.Drivers, ","), i.Summary)
		}
		t.print(a.out)
	})
}

// shortDigest is enough of a digest to tell images apart, and to name one.
func shortDigest(digest string) string { return digest[:min(len(digest), len("sha256:")+12)] }

// openImages opens the image store of a data directory, where the controller has it too.
func openImages(data string) (*images.Store, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("this command uses the controller's image store in %s and needs root", data)
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	return images.Open(filepath.Join(data, "images"))
}

func (a *app) printImported(i images.Image) {
	a.out.line("%s", i.Ref())
	a.say("image %s is in the store: %s, %s", i.Name, words.Size(i.Size), words.Count(len(i.Packages), "package"))
}
