package substratetest

import (
	"testing"

	"muster/internal/drivers/drivertest"
)

func TestTheContractTriesAllThatASubstrateCan(t *testing.T) { drivertest.Complete(t, parts()) }
