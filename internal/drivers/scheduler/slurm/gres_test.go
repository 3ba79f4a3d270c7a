package slurm

import "testing"

func TestAGPUsTypeIsWhatPeopleCallIt(t *testing.T) {
	for model, want := range map[string]string{
		"NVIDIA H100 80GB HBM3":                   "h100",
		"NVIDIA GH200 480GB":                      "gh200",
		"NVIDIA A40":                              "a40",
		"NVIDIA A100-SXM4-40GB":                   "a100",
		"Tesla V100-SXM2-16GB":                    "v100",
		"NVIDIA GeForce RTX 4090":                 "rtx_4090",
		"Quadro RTX 6000":                         "rtx_6000",
		"NVIDIA RTX A6000":                        "rtx_a6000",
		"AMD Instinct MI300X OAM":                 "mi300x",
		"Arcturus GL-XL [AMD Instinct MI100]":     "mi100",
		"Intel(R) Data Center GPU Max 1550":       "1550",
		"NVIDIA Graphics Device":                  "",
		"":                                        "",
		"AMD INSTINCT MI200 (MCM) OAM LC MBA HPE": "mi200",
	} {
		if got := GPUType(model); got != want {
			t.Errorf("%q: %q, want %q", model, got, want)
		}
	}
}

func TestANodesGresConfNamesEachDevice(t *testing.T) {
	got := NodeGres([]GPU{
		{Model: "NVIDIA H100 80GB HBM3", Device: "/dev/nvidia0", Cores: "0-15"},
		{Model: "AMD Instinct MI210", Device: "/dev/dri/renderD128"},
		{Device: "/dev/nvidia1"},
	})
	want := `# Written by muster; changes are overwritten.
Name=gpu Type=h100 File=/dev/nvidia0 Cores=0-15 Flags=nvidia_gpu_env
Name=gpu Type=mi210 File=/dev/dri/renderD128 Flags=amd_gpu_env
Name=gpu File=/dev/nvidia1 Flags=nvidia_gpu_env
`
	if got != want {
		t.Errorf("got\n%s want\n%s", got, want)
	}
}

func FuzzGPUType(f *testing.F) {
	for _, model := range []string{"NVIDIA H100 80GB HBM3", "Arcturus GL-XL [AMD Instinct MI100]", "] [", "é9-"} {
		f.Add(model)
	}
	f.Fuzz(func(t *testing.T, model string) {
		for _, r := range GPUType(model) {
			if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' {
				t.Errorf("%q: %q", model, GPUType(model))
			}
		}
	})
}
