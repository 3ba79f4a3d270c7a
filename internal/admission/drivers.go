package admission

import (
	"fmt"
	"slices"
	"strings"

	"muster/internal/inventory"
	"muster/internal/protocol"
)

// usable refuses an image that the plan's nodes cannot boot, or that lacks what they are to have. The error is a *Refusal.
func (a *Admission) usable(p *Plan) error {
	if err := a.accountable(p.Spec, p.image); err != nil {
		return err
	}
	for _, placed := range p.Add {
		if a.caps(placed.Machine).Kernel && !p.image.Boots {
			return noKernel(p.image, placed.Machine.Name)
		}
		if err := a.drives(p.image, placed.Role, placed.Class, placed.Machine); err != nil {
			return err
		}
		if err := roomForAccounts(p.Spec, placed); err != nil {
			return err
		}
	}
	return nil
}

// drives refuses an image that lacks the driver of a device that a node was asked for with: a guest's devices, and a whole
// machine's of the kinds that its class selects by. What a machine has besides may go without a driver.
func (a *Admission) drives(image Image, role protocol.Role, class string, m inventory.Machine) error {
	if role != protocol.Compute || !a.caps(m).Kernel || image.Drivers == nil {
		return nil
	}
	asked, _ := a.Catalogue.Find(class)
	var needed []string
	var reason string
	for _, d := range m.Facts.Devices {
		driver := inventory.DriverOf(d)
		if driver == "" || !m.IsGuest() && (d.Parent != "" || !asked.AsksFor(d.Kind)) {
			continue
		}
		needed = append(needed, driver)
		if reason == "" && !slices.Contains(image.Drivers, driver) {
			reason = fmt.Sprintf("image %s lacks the driver %s, which the %s of machine %s needs: %s", image.Name, driver, d.Kind,
				m.Name,
				strings.TrimSpace(d.Vendor+":"+d.ID+" "+d.Name))
		}
	}
	if reason == "" {
		return nil
	}
	slices.Sort(needed)
	needed = slices.Compact(needed)
	hint := fmt.Sprintf("no image here has %s; a recipe lists its drivers under `drivers`", strings.Join(needed, " and "))
	if others := a.Images.With(needed); len(others) > 0 {
		hint = "these have it: " + strings.Join(others, ", ")
	}
	return refuse(Invalid, "image-without-driver", "image", reason, hint)
}

func noKernel(image Image, machine string) *Refusal {
	return refuse(Invalid, "image-cannot-boot", "image", fmt.Sprintf("image %s has no kernel, so machine %s cannot boot it",
		image.Name, machine),
		"`muster images build` makes one with a kernel")
}
