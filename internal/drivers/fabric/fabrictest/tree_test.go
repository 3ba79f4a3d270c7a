package fabrictest

import (
	"strings"
	"testing"
)

func TestATreeIsWhatIbnetdiscoverWouldPrint(t *testing.T) {
	text := FatTree(5, 2, 1)
	for _, line := range []string{
		"Switch\t36 \"S-0002c90200200000\"\t\t# \"spine0\" enhanced port 0 lid 1 lmc 0\n[1]\t\"S-0002c90200100000\"[3]\t\t# " +
			"\"leaf0\" lid 2 4xFDR\n",
		"[2]\t\"H-0002c90300100010\"[1](2c90300100011) \t\t# \"node0002 mlx5_0\" lid 6 " +
			"4xFDR\n[3]\t\"S-0002c90200200000\"[1]\t\t# \"spine0\" lid 1 4xFDR\n",
		"Ca\t1 \"H-0002c90300100040\"\t\t# \"node0005 mlx5_0\"\n[1](2c90300100041) \t\"S-0002c90200100020\"[1]\t\t# lid 9 lmc " +
			"0 \"leaf2\" lid 4 4xFDR\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("it lacks\n%s", line)
		}
	}
	if switches, hosts := strings.Count(text, "switchguid="), strings.Count(text, "caguid="); switches != 4 || hosts != 5 {
		t.Errorf("%d switches and %d hosts", switches, hosts)
	}
}
