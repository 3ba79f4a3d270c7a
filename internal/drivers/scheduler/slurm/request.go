package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/internal/protocol"
)

// request is what a job asks for. Words that no new node has are said apart.
type request struct {
	protocol.Request
	fixed string
}

// parseRequest reads `scontrol show job -o`, of an array the line of the tasks that wait; not found: none does any more. A user
// chooses the job's name and could write words of this line there, which asks for what the user may ask for anyway.
func parseRequest(text string, v version) (r request, found bool, err error) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "JobId=") && word(line, "JobState") == "PENDING" {
			r, err = readRequest(strings.TrimSuffix(line, "\n"), v)
			return r, true, err
		}
	}
	return r, false, nil
}

func readRequest(line string, v version) (r request, err error) {
	tres := resources(cmp.Or(word(line, "ReqTRES"), word(line, "TRES")))
	// How many nodes it takes is Slurm's guess, where its user has not said; so is the first number of NumNodes.
	_, most, _ := strings.Cut(word(line, "NumNodes"), "-")
	tasks := word(line, "NumTasks")
	note, noted := strings.CutPrefix(strings.TrimSuffix(word(line, "AdminComment"), heldMark), "max_nodes=")
	if noted && v.guesses() { // the submit script knows better
		most, tasks, _ = strings.Cut(note, ",tasks=")
	}
	nodeRanks, _, _ := strings.Cut(word(line, "NtasksPerN:B:S:C"), ":")
	for _, field := range []struct {
		text string
		read func(string) (int, error)
		into *int
	}{
		{tres["node"], number, &r.Nodes},
		{most, number, &r.MostNodes},
		{word(line, "NumCPUs"), number, &r.CPUs},
		{tasks, number, &r.Ranks},
		{word(line, "CPUs/Task"), number, &r.RankCPUs},
		{nodeRanks, number, &r.NodeRanks},
		{word(line, "MinCPUsNode"), number, &r.NodeCPUs},
		{word(line, "MinMemoryCPU"), mebibytes, &r.CPUMemory},
		{word(line, "MinMemoryNode"), mebibytes, &r.NodeMemory},
		{word(line, "MinTmpDiskNode"), mebibytes, &r.NodeTmp},
		{word(line, "TresPerJob"), gpusIn, &r.GPUs},
		{word(line, "TresPerNode"), gpusIn, &r.NodeGPUs},
		{word(line, "TresPerTask"), gpusIn, &r.RankGPUs},
		{word(line, "CpusPerTres"), gpusIn, &r.GPUCPUs},
		{word(line, "MemPerTres"), gpusIn, &r.GPUMemory},
	} {
		if *field.into, err = field.read(field.text); err != nil {
			return r, err
		}
	}
	// All memory of a node is asked for by 0: no other job has a place there.
	r.Whole = word(line, "OverSubscribe") == "NO" || strings.Contains(line, " MinMemoryNode=0 ")
	if r.GPUMemory > 0 {
		r.CPUMemory, r.NodeMemory = 0, 0 // what Slurm shows beside it is the queue's default, which does not count then
	}
	if used := r.NodeRanks * r.RankCPUs; v.byTasks() && used > 0 {
		if used == 1 && r.CPUMemory > 0 {
			r.CPUMemory, r.NodeMemory = 0, r.CPUMemory
		}
		if r.NodeCPUs > used && !r.Whole {
			r.fixed = fmt.Sprintf("it asks for %d CPUs on nodes where its tasks have %d", r.NodeCPUs, used)
		}
	}
	switch feature, nodes := word(line, "Features"), word(line, "ReqNodeList"); {
	case nodes != "":
		r.fixed = fmt.Sprintf("it asks for %s by name", nodes)
	case feature != "" && !slices.Contains(strings.Split(word(line, "Partition"), ","), feature):
		r.fixed = fmt.Sprintf("it asks for the feature %s", feature)
	}
	return r, nil
}

// mebibytes reads 3G, 1.50G, 2500M, 900K, or a number of them.
func mebibytes(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	scale, digits := 1.0, text
	for unit, of := range map[string]float64{"K": 1. / (1 << 10), "M": 1, "G": 1 << 10, "T": 1 << 20, "P": 1 << 30} {
		if cut, found := strings.CutSuffix(text, unit); found {
			scale, digits = of, cut
		}
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(n >= 0 && n*scale < 1<<40) {
		return 0, fmt.Errorf("%.20q is no amount of memory", text)
	}
	return int(n*scale + 0.5), nil
}
