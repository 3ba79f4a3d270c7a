package api

import (
	"reflect"

	apiv1 "muster/api/v1"
	"muster/internal/spec"
)

// known are schemas whose names are not those of their types.
func known() map[reflect.Type]string {
	return map[reflect.Type]string{
		typeOf[spec.Cluster]():                 fileSchema,
		typeOf[apiv1.AcknowledgeAlarmBody]():   "Acknowledge-alarmRequest",
		typeOf[apiv1.AddExternalClusterBody](): "Add-external-clusterRequest",
		typeOf[apiv1.AddKeyBody]():             "Add-keyRequest",
		typeOf[apiv1.AddMachinesBody]():        "EnrolmentBody",
		typeOf[apiv1.AddPersonBody]():          "Add-personRequest",
		typeOf[apiv1.AddProjectBody]():         "Add-projectRequest",
		typeOf[apiv1.AssignFabricPortBody]():   "Assign-fabric-portRequest",
		typeOf[apiv1.CertifyBody]():            "CertifyRequest",
		typeOf[apiv1.ChangePersonBody]():       "Change-personRequest",
		typeOf[apiv1.ChangeProjectBody]():      "Change-projectRequest",
		typeOf[apiv1.ChangeRolloutBody]():      "RolloutInputBody",
		typeOf[apiv1.CreateSnapshotBody]():     "Create-snapshotRequest",
		typeOf[apiv1.ExtendClusterBody]():      "ExtendInputBody",
		typeOf[apiv1.ImportFabricBody]():       "Import-fabricRequest",
		typeOf[apiv1.PutFabricPartitionBody](): "Put-fabric-partitionRequest",
		typeOf[apiv1.PutTopologyBody]():        "Put-topologyRequest",
		typeOf[apiv1.PlaceMachineBody]():       "Place-machineRequest",
		typeOf[apiv1.QuarantineMachineBody]():  "QuarantineBody",
		typeOf[apiv1.ScaleClusterBody]():       "ScaleInputBody",
		typeOf[apiv1.Secrets]():                "SecretsOutputBody",
		typeOf[apiv1.SetMemberBody]():          "Set-memberRequest",
	}
}
