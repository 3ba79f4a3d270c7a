package fabrictest

import (
	"testing"

	"muster/internal/drivers/drivertest"
)

func TestTheContractTriesAllThatAFabricsDriverCan(t *testing.T) { drivertest.Complete(t, parts()) }
