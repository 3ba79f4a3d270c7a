package inventory

import (
	"testing"
)

func TestGPUsAreCountedInTheOrderOfTheirAddresses(t *testing.T) {
	f := Facts{Devices: []Device{
		{Kind: "gpu", PCI: "10000:01:00.0"},
		{Kind: "gpu", PCI: "0000:c1:00.0"},
		{Kind: "hca", PCI: "0000:02:00.0"},
		{Kind: "gpu", PCI: "0000:17:00.1", Parent: "0000:17:00.0"},
		{Kind: "gpu", PCI: "0000:17:00.0"},
	}}
	want := []string{"0000:17:00.0", "0000:c1:00.0", "10000:01:00.0"}
	got := f.GPUs()
	if len(got) != len(want) {
		t.Fatalf("%d GPUs: %v", len(got), got)
	}
	for i, d := range got {
		if d.PCI != want[i] {
			t.Errorf("gpu%d is %s, want %s", i, d.PCI, want[i])
		}
	}
	if got := GPUAddress("r1n1", 2); got != "r1n1/gpu2" {
		t.Error(got)
	}
}

func TestEveryDeviceNeedsTheDriverOfItsMaker(t *testing.T) {
	for want, d := range map[string]Device{
		"nvidia": {Kind: "gpu", Vendor: "10de", ID: "2330"},
		"amdgpu": {Kind: "gpu", Vendor: "1002", ID: "74a1"},
		"mlx4":   {Kind: "hca", Vendor: "15b3", ID: "1003"},
		"mlx5":   {Kind: "hca", Vendor: "15b3", ID: "1021"},
		"hfi1":   {Kind: "hca", Vendor: "8086", ID: "24f0"},
		"":       {Kind: "nvme", Vendor: "10de", ID: "2330"},
	} {
		if got := DriverOf(d); got != want {
			t.Errorf("%+v needs %q, want %q", d, got, want)
		}
		if want != "" && len(DriverModules(want)) == 0 {
			t.Errorf("driver %s has no modules", want)
		}
	}
}

func TestAClassAsksForADeviceIfOnlyMachinesWithOneAreOfIt(t *testing.T) {
	for text, want := range map[string]bool{
		"gpus >= 1": true, "gpus > 0": true, "gpus = 8": true,
		"gpus >= 0": false, "gpus = 0": false, "gpus < 4": false, "gpus != 1": false, "hcas >= 1": false,
	} {
		condition, err := ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Class{Select: []Condition{condition}}).AsksFor("gpu"); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
