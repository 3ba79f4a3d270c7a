package inventory

import (
	"errors"
	"fmt"

	"muster/internal/kit/pattern"
)

// What the site file says of a class whose machines hold guests.
type (
	overcommitWritten struct {
		CPU int `yaml:"cpu"`
	}
	shapeWritten struct {
		CPUs   int    `yaml:"cpus"`
		Memory string `yaml:"memory"`
	}
)

// HypervisorImage is the name of the image that machines boot to hold guests.
const HypervisorImage = "debian12-hypervisor"

// InspectorImage is the name of the image that looks at machines.
const InspectorImage = "inspector"

// mostOvercommit is how many guests may share a core at most.
const mostOvercommit = 16

// sizeForm is a size as cluster files have it.
var sizeForm = pattern.New(`^[1-9][0-9]{0,3}(MiB|GiB|TiB)$`)

// guests reads what a class says of its guests. Each guest has its cores for itself unless the class says otherwise.
func (c *Class) guests(hypervisor bool, overcommit *overcommitWritten, shape *shapeWritten) error {
	if !hypervisor {
		if overcommit != nil || shape != nil {
			return errors.New("overcommit and vm are for classes whose machines hold guests; write hypervisor: true")
		}
		return nil
	}
	c.Hypervisor, c.Overcommit, c.Shape = true, 1, Shape{CPUs: 4, Memory: "16GiB"}
	if overcommit != nil {
		if c.Overcommit = overcommit.CPU; c.Overcommit < 1 || c.Overcommit > mostOvercommit {
			return fmt.Errorf("overcommit.cpu: %d; write how many guests may have the same core, from 1 (none shares) to %d",
				c.Overcommit, mostOvercommit)
		}
	}
	if shape != nil {
		if c.Shape = Shape(*shape); c.Shape.CPUs < 1 || !sizeForm.MatchString(c.Shape.Memory) {
			return errors.New("vm: write the shape of a node of which its cluster's file says nothing, for example {cpus: 4, " +
				"memory: 16GiB}")
		}
	}
	return nil
}
