// Package subnet is a toy driver of fabrics: a subnet manager in memory. It is here to show what a new driver takes: this
// folder, and one line in the list.
package subnet

import (
	"errors"

	fabrics "muster/internal/drivers/fabric"
	"muster/internal/drivers/fabric/fake"
	"muster/internal/fabric"
)

// Factory declares the driver. The manager has these ports on its fabric, each with room for 16 keys.
func Factory(ports ...fabric.GUID) fabrics.Factory {
	return fabrics.Factory{
		Name:     "subnet",
		Settings: []fabrics.Setting{{Name: "rack"}},
		Open: func(t fabrics.Directives) (fabric.Driver, error) {
			if rack, _ := t.Value("rack"); rack == "" {
				return nil, errors.New("it is told rack, which says where the manager is")
			}
			f := fake.New(t.Managers[0], ports...)
			for _, p := range ports {
				f.Narrow(p, 16)
			}
			return f, nil
		},
	}
}
