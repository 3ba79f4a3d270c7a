package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/internal/kit/testall"
)

// TestTheConsoleWasBuiltFromItsSources: who changes them builds it again.
func TestTheConsoleWasBuiltFromItsSources(t *testing.T) {
	list, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "src", "public", "tools",
		"index.html", "*.json", "vite.config.ts").Output()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	names := strings.Fields(string(list))
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range append(names, "../api/openapi.yaml") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(text)
	}
	built, err := os.ReadFile("sources.sha256")
	if now := hex.EncodeToString(sum.Sum(nil)); err != nil || strings.TrimSpace(string(built)) != now {
		t.Errorf("ui/dist is not what its sources give: `make ui` builds it (%v)", err)
	}
}

// TestTheConsoleIsWhatItsSourcesGive builds it again, which needs Node and the packages that it is made of.
func TestTheConsoleIsWhatItsSourcesGive(t *testing.T) {
	testall.Only(t)
	into := t.TempDir()
	if out, err := exec.Command("../scripts/ui.sh", into).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("diff", "-r", into, filepath.Join("dist")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
