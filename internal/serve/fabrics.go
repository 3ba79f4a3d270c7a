package serve

import (
	"encoding/json"
	"sync"

	fabrics "muster/internal/drivers/fabric"
	"muster/internal/fabric"
	fabricrows "muster/internal/kinds/fabric"
	"muster/internal/kit/private"
)

// fabricDrivers opens the drivers of fabrics from their rows, and keeps each for as long as what it is told stays the same. It is
// life.Fabrics.
type fabricDrivers struct {
	all     fabrics.Registry
	scratch string // where drivers may keep what nobody misses
	signals private.Dir
	secrets private.Dir
	site    map[string]map[string]string // what root says, by the fabric's name

	mu   sync.Mutex
	open map[string]opened // by the fabric's ID
}

type opened struct {
	told   string
	driver fabric.Driver
}

func newFabrics(all fabrics.Registry, d dir, site map[string]map[string]string) *fabricDrivers {
	return &fabricDrivers{all: all, scratch: d.fabrics(), signals: private.Dir(d.signals()), secrets: private.Dir(d.secrets()),
		site: site, open: map[string]opened{}}
}

// Driver is that of a fabric as it stands in its row.
func (o *fabricDrivers) Driver(f fabricrows.Fabric) (fabric.Driver, error) {
	told, err := json.Marshal([]any{f.Driver, f.Config, f.Managers})
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if is, there := o.open[f.ID]; there && is.told == string(told) {
		return is.driver, nil
	}
	driver, err := o.opened(f)
	if err == nil {
		o.open[f.ID] = opened{string(told), driver}
	}
	return driver, err
}

func (o *fabricDrivers) opened(f fabricrows.Fabric) (fabric.Driver, error) {
	return o.all.Open(f.Driver, fabrics.Directives{
		Fabric: f.Name, Managers: f.Managers, Root: o.site[f.Name], Given: f.Config,
		Scratch: o.scratch, Signals: o.signals, Secrets: o.secrets,
	})
}

// check says what is wrong with what a fabric's driver is told, before there is a row.
func (o *fabricDrivers) check(f fabricrows.Fabric) error {
	_, err := o.opened(f)
	return err
}
