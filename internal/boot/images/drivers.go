package images

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"muster/internal/boot/kmod"
	"muster/internal/inventory"
)

func (r *Recipe) checkDrivers() error {
	for _, name := range r.Drivers {
		if inventory.DriverModules(name) == nil {
			return fmt.Errorf("drivers: there is no driver %q; there are %s", name, strings.Join(inventory.Drivers(), ", "))
		}
	}
	if len(r.Drivers) > 0 && r.Kernel == "" {
		return errors.New("drivers: they are modules of a kernel, and the image has none; name its package under kernel")
	}
	return nil
}

// carried are the drivers whose modules are all in the kernel of root. It has none without a kernel.
func carried(root string) ([]string, error) {
	inside, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer inside.Close()
	version, modules, err := findKernel(plain{inside.FS()})
	if err != nil || version == "" {
		return []string{}, err
	}
	return driversIn(modules)
}

func driversIn(modules fs.FS) ([]string, error) {
	tree, err := kmod.Read(modules)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(inventory.Drivers(), func(name string) bool {
		return slices.ContainsFunc(inventory.DriverModules(name), func(module string) bool { return !tree.Has(module) })
	}), nil
}

// findDrivers fails if one is not there that the recipe promises.
func findDrivers(root string, promised []string) error {
	if len(promised) == 0 {
		return nil
	}
	there, err := carried(root)
	if err != nil {
		return err
	}
	var missing []string
	for _, name := range promised {
		if !slices.Contains(there, name) {
			missing = append(missing, fmt.Sprintf("%s (modules %s)", name, strings.Join(inventory.DriverModules(name), ", ")))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the image lacks drivers that its recipe promises: %s", strings.Join(missing, "; "))
	}
	return nil
}

// driven checks that the image's kernel has the modules of every driver, and names all that are missing.
func driven(drivers []string) Check {
	var modules []string
	for _, name := range drivers {
		modules = append(modules, inventory.DriverModules(name)...)
	}
	return Check{
		Name: "every promised driver is there",
		// In modules.dep the names of files have - or _ as it comes, and may be packed.
		Run: `bad=; for m in ` + strings.Join(modules, " ") + `; do p=$(echo $m | sed 's/_/[-_]/g')
			grep -qE "(^|/)$p\.ko(\.(gz|xz|zst))?:" /lib/modules/*/modules.dep || bad="$bad $m"; done
			test -z "$bad" || { echo "missing:$bad" >&2; exit 1; }`,
	}
}
