package slurm

import (
	"fmt"
	"slices"
	"strings"
)

// GPU is one GPU of a node, as Slurm has to know it.
type GPU struct {
	Model  string // its maker's name for it; "": not known
	Device string // what programs open: "/dev/nvidia0"
	Cores  string // nearest to it, in Slurm's own numbers: "0-15"; "": all
}

// NodeGresFile is where each node writes what it has.
const NodeGresFile = "/etc/muster/gres.conf"

// Gres is the head's gres.conf. slurmd fetches it and then reads its own node's file: Slurm sends such an included file
// only if it is named without a folder. So no node needs to know another's GPUs, and slurmctld need not be told of any.
func Gres() string {
	return written + "AutoDetect=off\nInclude " + NodeGresFile + "\n"
}

// NodeGres is that file. The order of its lines is the order in which Slurm counts, and in which it tells jobs of GPUs.
func NodeGres(gpus []GPU) string {
	var b strings.Builder
	b.WriteString(written)
	for _, g := range gpus {
		b.WriteString("Name=gpu")
		if kind := GPUType(g.Model); kind != "" {
			b.WriteString(" Type=" + kind)
		}
		b.WriteString(" File=" + g.Device)
		if g.Cores != "" {
			b.WriteString(" Cores=" + g.Cores)
		}
		// How jobs are told: CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES.
		if strings.HasPrefix(g.Device, "/dev/nvidia") {
			b.WriteString(" Flags=nvidia_gpu_env")
		} else {
			b.WriteString(" Flags=amd_gpu_env")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// nodeGPUs is what a node says of its GPUs when it registers: "gpu:h100:8".
func nodeGPUs(gpus []GPU) string {
	counts := map[string]int{}
	var kinds []string
	for _, g := range gpus {
		kind := GPUType(g.Model)
		if counts[kind]++; counts[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	var words []string
	for _, kind := range kinds {
		if kind == "" {
			words = append(words, fmt.Sprintf("gpu:%d", counts[kind]))
		} else {
			words = append(words, fmt.Sprintf("gpu:%s:%d", kind, counts[kind]))
		}
	}
	return strings.Join(words, ",")
}

// GPUType is what a user asks for in `--gres=gpu:TYPE`: the first word of the model that has a digit, in lower case, with
// what stands before it but for the names of makers and series. "NVIDIA H100 80GB HBM3" is h100, "NVIDIA GeForce RTX 4090"
// is rtx_4090. "" if the model has no such word.
func GPUType(model string) string {
	if _, inside, found := strings.Cut(model, "["); found { // "Arcturus GL-XL [AMD Instinct MI100]"
		model, _, _ = strings.Cut(inside, "]")
	}
	var words []string
	for _, word := range strings.Fields(strings.ToLower(model)) {
		word, _, _ = strings.Cut(word, "-") // "v100-sxm2-16gb"
		word = strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, word)
		if word == "" || slices.Contains(
			strings.Fields("nvidia amd intel tesla instinct geforce quadro radeon pro data center gpu max intelr"), word) {
			continue
		}
		words = append(words, word)
		if strings.ContainsAny(word, "0123456789") {
			return strings.Join(words, "_")
		}
	}
	return ""
}
