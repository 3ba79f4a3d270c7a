package fabrictest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"muster/internal/fabric"
)

// Tenants plays clusters that come, grow, shrink, replace a node and go, on ports that each one has for itself.
type Tenants struct {
	random *rand.Rand
	most   int // clusters that come, in all
	free   []fabric.GUID
	ports  map[fabric.Key][]fabric.GUID
	keys   fabric.Key // that were given out
}

// NewTenants has so many clusters come and go on these ports.
func NewTenants(ports []fabric.GUID, most int, random *rand.Rand) *Tenants {
	return &Tenants{random: random, most: most, free: slices.Clone(ports), ports: map[fabric.Key][]fabric.GUID{}}
}

// Step changes one cluster, and says what it did and what the partitions are now. A port that is let go is the next one's
// right away in every other step, since that is when a key that stays behind does harm. It says nothing when all have gone.
func (c *Tenants) Step() (what string, partitions []fabric.Partition) {
	keys, all := slices.Sorted(maps.Keys(c.ports)), int(c.keys) == c.most
	switch action := c.random.IntN(8); {
	case all && len(keys) == 0:
		return "", nil
	case len(keys) > 0 && (all && action < 3 || action == 7):
		key := c.any(keys)
		what = "deleted " + key.String()
		c.shrink(key, len(c.ports[key]))
		delete(c.ports, key)
	case len(keys) == 0, action < 3 && len(c.free) > 0:
		c.keys++
		what = "created " + c.keys.String()
		c.grow(c.keys, 1+c.random.IntN(max(1, len(c.free)/2)))
	case action < 4:
		key := c.any(keys)
		what = "grown " + key.String()
		c.grow(key, 1+c.random.IntN(4))
	case action < 5:
		key := c.any(keys)
		what = "shrunk " + key.String()
		c.shrink(key, 1)
	default:
		key := c.any(keys)
		what = "replaced a node of " + key.String()
		c.grow(key, 1)
		c.shrink(key, 1)
	}
	return what, c.Partitions()
}

// Partitions is what there is now.
func (c *Tenants) Partitions() []fabric.Partition {
	var all []fabric.Partition
	for _, key := range slices.Sorted(maps.Keys(c.ports)) {
		p := fabric.Partition{Key: key, Members: map[fabric.GUID]fabric.Membership{}}
		for _, port := range c.ports[key] {
			p.Members[port] = fabric.Full
		}
		all = append(all, p)
	}
	return all
}

func (c *Tenants) any(keys []fabric.Key) fabric.Key { return keys[c.random.IntN(len(keys))] }

func (c *Tenants) grow(key fabric.Key, n int) {
	n = min(n, len(c.free))
	c.ports[key] = append(c.ports[key], c.free[len(c.free)-n:]...)
	c.free = c.free[:len(c.free)-n]
}

func (c *Tenants) shrink(key fabric.Key, n int) {
	c.random.Shuffle(len(c.ports[key]), func(a, b int) {
		c.ports[key][a], c.ports[key][b] = c.ports[key][b], c.ports[key][a]
	})
	n = min(n, len(c.ports[key]))
	gone := c.ports[key][:n]
	c.ports[key] = slices.Clone(c.ports[key][n:])
	c.free = append(c.free, gone...)
	if c.random.IntN(2) == 0 {
		c.random.Shuffle(len(c.free), func(a, b int) { c.free[a], c.free[b] = c.free[b], c.free[a] })
	}
}

// Churn has clusters come and go, in so many steps at most. After each one the tables are the intent's.
func Churn(t *testing.T, w Fixture, clusters, steps int, random *rand.Rand) {
	tenants := NewTenants(w.Ports, clusters, random)
	for n := range steps {
		what, partitions := tenants.Step()
		if what == "" {
			return
		}
		i := fabric.Intent{Partitions: partitions, Managers: []fabric.GUID{w.Manager}}
		if err := w.Driver.Apply(t.Context(), i); err != nil {
			t.Fatalf("step %d, %s: %v", n, what, err)
		}
		w.holds(t, i)
	}
}
