package fabriclife

import (
	"encoding/json"
	"sync"

	drivers "muster/internal/drivers/fabric"
	"muster/internal/fabric"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kit/private"
)

// Drivers opens the drivers of fabrics from their rows, and keeps each for as long as what it is told stays the same. It is
// life.Fabrics.
type Drivers struct {
	All     drivers.Registry
	Root    map[string]map[string]string // what root says, by the fabric's name
	Scratch string                       // where drivers may keep what can be lost
	Signals private.Dir
	Secrets private.Dir

	mu   sync.Mutex
	open map[string]opened // by the fabric's ID
}

type opened struct {
	told   string
	driver fabric.Driver
}

// Driver is that of a fabric as it stands in its row.
func (d *Drivers) Driver(f fabrics.Fabric) (fabric.Driver, error) {
	told, err := json.Marshal([]any{f.Driver, f.Config, f.Managers})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if is, there := d.open[f.ID]; there && is.told == string(told) {
		return is.driver, nil
	}
	driver, err := d.opened(f)
	if err == nil {
		if d.open == nil {
			d.open = map[string]opened{}
		}
		d.open[f.ID] = opened{string(told), driver}
	}
	return driver, err
}

func (d *Drivers) opened(f fabrics.Fabric) (fabric.Driver, error) {
	return d.All.Open(f.Driver, drivers.Directives{
		Fabric: f.Name, Managers: f.Managers, Root: d.Root[f.Name], Given: f.Config,
		Scratch: d.Scratch, Signals: d.Signals, Secrets: d.Secrets,
	})
}

// Check says what is wrong with what a fabric's driver is told, before there is a row.
func (d *Drivers) Check(f fabrics.Fabric) error {
	_, err := d.opened(f)
	return err
}
