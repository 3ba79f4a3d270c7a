package devices

import (
	"encoding/binary"
	"fmt"
)

// What Identify shows (NVM Express Base Specification 1.4, 5.15.1, figure 244).
const (
	identifyAllocated   = 0x10 // namespaces that exist
	identifyAttached    = 0x12 // controllers that a namespace is attached to
	identifyPrimary     = 0x14 // what a primary controller has for secondary ones
	identifySecondaries = 0x15
)

// primary is what a primary controller has to give to its secondary ones (NVM Express 1.4, figure 248).
type primary struct {
	id                         int
	queues, interrupts         int // flexible ones in all
	ownQueues, ownInterrupts   int // flexible ones that it keeps
	mostQueues, mostInterrupts int // for one secondary controller
	queueGrain, interruptGrain int
}

func parsePrimary(data []byte) primary {
	half := func(at int) int { return int(binary.LittleEndian.Uint16(data[at:])) }
	word := func(at int) int { return int(binary.LittleEndian.Uint32(data[at:])) }
	return primary{
		id: half(0), queues: word(32), ownQueues: half(40), mostQueues: half(44), queueGrain: half(46),
		interrupts: word(64), ownInterrupts: half(72), mostInterrupts: half(76), interruptGrain: half(78),
	}
}

// share is one secondary controller's part of flexible resources: even, of whole grains, at least least.
func share(all, among, most, grain, least int) (int, error) {
	each := min(all/max(among, 1), most)
	if grain > 1 {
		each -= each % grain
	}
	if each < least {
		return 0, fmt.Errorf("%d flexible resources are not enough for %d virtual functions, which need %d each", all, among,
			least)
	}
	return each, nil
}

// secondary is the controller of a virtual function (NVM Express 1.4, figure 250).
type secondary struct {
	id, function       int // function: from 1
	online             bool
	queues, interrupts int
}

func parseSecondaries(data []byte) []secondary {
	const head, size = 32, 32
	half := func(at int) int { return int(binary.LittleEndian.Uint16(data[at:])) }
	var all []secondary
	for i := range int(data[0]) {
		at := head + i*size
		if at+size > len(data) {
			break
		}
		all = append(all, secondary{
			id: half(at), online: data[at+4]&1 != 0, function: half(at + 8), queues: half(at + 10), interrupts: half(at + 12),
		})
	}
	return all
}

// parseIDs reads a list of controllers: how many, and their IDs (NVM Express 1.4, 4.11).
func parseIDs(data []byte) []int {
	var ids []int
	for i := range int(binary.LittleEndian.Uint16(data)) {
		at := 2 + 2*i
		if at+2 > len(data) {
			break
		}
		ids = append(ids, int(binary.LittleEndian.Uint16(data[at:])))
	}
	return ids
}

// parseNamespaces reads a list of namespaces, which ends with a zero.
func parseNamespaces(data []byte) []int {
	var ids []int
	for at := 0; at+4 <= len(data); at += 4 {
		id := binary.LittleEndian.Uint32(data[at:])
		if id == 0 {
			break
		}
		ids = append(ids, int(id))
	}
	return ids
}
