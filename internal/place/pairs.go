package place

import "slices"

// port is what can be given of GPUs and HCAs below one root port. Near and far are told apart only where it matters to the
// guest.
type port struct{ gpus, farGPUs, hcas, farHCAs int }

// portion is what is taken below one root port.
type portion struct{ gpus, hcas int }

// ports are the root ports with the GPUs and HCAs that the guest may have on these NUMA nodes, and their names, in the
// order of the devices. HCAs without a root port come under "". GPUs without one reach no HCA directly.
func (s *stock) ports(w want, set []int) (ports []port, names []string) {
	for _, o := range s.devices {
		near := w.locality == Any || s.near(o, set)
		if o.Kind != "gpu" && o.Kind != "hca" || o.Kind == "gpu" && o.port == "" || w.locality == Required && !near {
			continue
		}
		i := slices.Index(names, o.port)
		if i < 0 {
			i = len(names)
			ports, names = append(ports, port{}), append(names, o.port)
		}
		switch p := &ports[i]; {
		case o.Kind == "gpu" && near:
			p.gpus++
		case o.Kind == "gpu":
			p.farGPUs++
		case near:
			p.hcas++
		default:
			p.farHCAs++
		}
	}
	return ports, names
}

// pairing is how good a choice is, the gravest first: devices that are far, GPUs without an HCA of their own, and GPUs left to
// others without one.
type pairing [3]int

// below is the pairing of one port when t is taken from it.
func (t portion) below(p port) pairing {
	return pairing{
		max(0, t.gpus-p.gpus) + max(0, t.hcas-p.hcas),
		max(0, t.gpus-t.hcas),
		max(0, p.gpus+p.farGPUs-t.gpus-(p.hcas+p.farHCAs-t.hcas)),
	}
}

// pair says how many GPUs and HCAs to take below each port, so that every GPU has an HCA beside it, and how good that is.
//
// It goes from port to port and keeps, for every number of GPUs and HCAs that can have been taken so far, the best way. So
// its cost is, for every port, the product of what is asked and what is there: 3,000 steps for 8 GPUs and 8 HCAs, a pair a port.
func pair(ports []port, gpus, hcas int) (take []portion, best pairing, ok bool) {
	type way struct {
		pairing
		last portion // taken below the last port
		ok   bool
	}
	wide := hcas + 1
	ways := make([][]way, len(ports)+1)
	for i := range ways {
		ways[i] = make([]way, (gpus+1)*wide)
	}
	ways[0][0].ok = true
	for i, p := range ports {
		for at, from := range ways[i] {
			if !from.ok {
				continue
			}
			for g := 0; g <= min(p.gpus+p.farGPUs, gpus-at/wide); g++ {
				for h := min(g, 1); h <= min(p.hcas+p.farHCAs, hcas-at%wide); h++ {
					t := portion{g, h}
					sum := t.below(p)
					for j := range sum {
						sum[j] += from.pairing[j]
					}
					to := &ways[i+1][at+g*wide+h]
					if !to.ok || slices.Compare(sum[:], to.pairing[:]) < 0 {
						*to = way{sum, t, true}
					}
				}
			}
		}
	}
	at := len(ways[0]) - 1
	end := ways[len(ports)][at]
	if !end.ok {
		return nil, pairing{}, false
	}
	take = make([]portion, len(ports))
	for i := len(ports); i > 0; i-- {
		take[i-1] = ways[i][at].last
		at -= take[i-1].gpus*wide + take[i-1].hcas
	}
	return take, end.pairing, true
}
