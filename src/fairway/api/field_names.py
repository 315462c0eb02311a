"""The field names that the APIs behind the manifests have, whether or not Fairway decodes them.

One line per type: `field` may hold anything, `field=Type` holds that type, `field=[Type]` a list and `field={Type}` a
map of it. A type that ends in `!` is closed: any other field in it is unknown. In an open type only a field that looks
like a misspelling of a known one is: Kubernetes gets new fields with every release, and a warning about a field that is
right is worse than none about one that is wrong.
"""

from __future__ import annotations

TABLE = """
Node!: metadata=ObjectMeta spec=NodeSpec status=NodeStatus
Pod!: metadata=ObjectMeta spec=PodSpec status=PodStatus
Namespace!: metadata=ObjectMeta spec status
ResourceQuota!: metadata=ObjectMeta spec=ResourceQuotaSpec status
PersistentVolume!: metadata=ObjectMeta spec=PersistentVolumeSpec status
PersistentVolumeClaim!: metadata=ObjectMeta spec=PersistentVolumeClaimSpec status
StorageClass!: metadata=ObjectMeta provisioner parameters reclaimPolicy mountOptions allowVolumeExpansion
  volumeBindingMode allowedTopologies=[TopologySelectorTerm]
CSINode!: metadata=ObjectMeta spec=CSINodeSpec
CSIDriver!: metadata=ObjectMeta spec=CSIDriverSpec
CSIStorageCapacity!: metadata=ObjectMeta capacity maximumVolumeSize nodeTopology=LabelSelector storageClassName
PriorityClass!: metadata=ObjectMeta value globalDefault description preemptionPolicy
PodDisruptionBudget!: metadata=ObjectMeta spec=PodDisruptionBudgetSpec status
Queue!: metadata=ObjectMeta spec=QueueSpec status
PodGroup!: metadata=ObjectMeta spec=PodGroupSpec status
ResourceSlice!: metadata=ObjectMeta spec=ResourceSliceSpec
DeviceTaintRule!: metadata=ObjectMeta spec=DeviceTaintRuleSpec status
DeviceClass!: metadata=ObjectMeta spec=DeviceClassSpec
ResourceClaim!: metadata=ObjectMeta spec=ResourceClaimSpec status
ResourceClaimTemplate!: metadata=ObjectMeta spec=ResourceClaimTemplateSpec
ResourceClass!: metadata=ObjectMeta status
ManagedCluster!: metadata=ObjectMeta spec=ManagedClusterSpec status
ManagedClusterSet!: metadata=ObjectMeta spec=ManagedClusterSetSpec status
ManagedClusterSetBinding!: metadata=ObjectMeta spec=ManagedClusterSetBindingSpec status
Placement!: metadata=ObjectMeta spec=PlacementSpec status
PlacementDecision!: metadata=ObjectMeta status
AddOnPlacementScore!: metadata=ObjectMeta status

ObjectMeta: annotations clusterName creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers
  generateName generation labels managedFields name namespace ownerReferences=[OwnerReference] resourceVersion selfLink
  uid
OwnerReference: apiVersion blockOwnerDeletion controller kind name uid
LabelSelector!: matchLabels matchExpressions=[Requirement]
Requirement!: key operator values

NodeSpec: configSource externalID podCIDR podCIDRs providerID taints=[Taint] unschedulable
Taint!: effect key timeAdded value
NodeStatus: addresses allocatable capacity conditions config daemonEndpoints declaredFeatures features images nodeInfo
  phase runtimeHandlers volumesAttached volumesInUse

PodSpec: activeDeadlineSeconds affinity=Affinity automountServiceAccountToken containers=[Container] dnsConfig dnsPolicy
  enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride
  imagePullSecrets initContainers=[Container] nodeName nodeSelector os overhead preemptionPolicy priority
  priorityClassName readinessGates resourceClaims=[PodResourceClaim] resources=ResourceRequirements restartPolicy
  runtimeClassName schedulerName schedulingGates=[SchedulingGate] schedulingGroup securityContext serviceAccount
  serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds
  tolerations=[Toleration] topologySpreadConstraints=[TopologySpreadConstraint] volumes workloadRef
PodStatus: allocatedResources conditions containerStatuses ephemeralContainerStatuses extendedResourceClaimStatus hostIP
  hostIPs initContainerStatuses message nominatedNodeName observedGeneration phase podIP podIPs qosClass reason resize
  resourceClaimStatuses resources startTime
Container: args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports=[ContainerPort]
  readinessProbe resizePolicy resources=ResourceRequirements restartPolicy restartPolicyRules securityContext
  startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir
ContainerPort!: containerPort hostIP hostPort name protocol
ResourceRequirements!: claims=[ContainerClaim] limits requests
ContainerClaim!: name request
PodResourceClaim: name resourceClaimName resourceClaimTemplateName source
SchedulingGate!: name
Toleration!: effect key operator tolerationSeconds value
Affinity!: nodeAffinity=NodeAffinity podAffinity=PodAffinity podAntiAffinity=PodAffinity
NodeAffinity!: requiredDuringSchedulingIgnoredDuringExecution=NodeSelector
  preferredDuringSchedulingIgnoredDuringExecution=[PreferredNodeTerm]
NodeSelector!: nodeSelectorTerms=[NodeSelectorTerm]
NodeSelectorTerm!: matchExpressions=[Requirement] matchFields=[Requirement]
PreferredNodeTerm!: preference=NodeSelectorTerm weight
PodAffinity!: requiredDuringSchedulingIgnoredDuringExecution=[PodAffinityTerm]
  preferredDuringSchedulingIgnoredDuringExecution=[WeightedPodAffinityTerm]
PodAffinityTerm: labelSelector=LabelSelector matchLabelKeys mismatchLabelKeys namespaceSelector=LabelSelector namespaces
  topologyKey
WeightedPodAffinityTerm!: podAffinityTerm=PodAffinityTerm weight
TopologySpreadConstraint: labelSelector=LabelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy
  nodeTaintsPolicy topologyKey whenUnsatisfiable

ResourceQuotaSpec!: hard scopeSelector scopes
PersistentVolumeSpec: accessModes awsElasticBlockStore azureDisk azureFile capacity cephfs cinder claimRef csi fc
  flexVolume flocker gcePersistentDisk glusterfs hostPath iscsi local mountOptions nfs nodeAffinity=VolumeNodeAffinity
  persistentVolumeReclaimPolicy photonPersistentDisk portworxVolume quobyte rbd scaleIO storageClassName storageos
  volumeAttributesClassName volumeMode vsphereVolume
CSINodeSpec!: drivers
CSIDriverSpec: attachRequired fsGroupPolicy nodeAllocatableUpdatePeriodSeconds podInfoOnMount
  preventPodSchedulingIfMissing requiresRepublish seLinuxMount serviceAccountTokenInSecrets storageCapacity
  tokenRequests volumeLifecycleModes
VolumeNodeAffinity!: required=NodeSelector
PersistentVolumeClaimSpec: accessModes dataSource dataSourceRef resources=ResourceRequirements selector=LabelSelector
  storageClassName volumeAttributesClassName volumeMode volumeName
TopologySelectorTerm!: matchLabelExpressions=[TopologySelectorLabel]
TopologySelectorLabel!: key values
PodDisruptionBudgetSpec: maxUnavailable minAvailable selector=LabelSelector unhealthyPodEvictionPolicy

QueueSpec!: affinity allowedNamespaces=LabelSelector capability dequeueStrategy deserved extendClusters
  guarantee=QueueGuarantee parent priority reclaimable type weight
QueueGuarantee!: resource
PodGroupSpec!: minMember minResources minTaskMember networkTopology=NetworkTopology priorityClassName queue
  subGroupPolicy
NetworkTopology: highestTierAllowed highestTierName mode

ResourceSliceSpec: allNodes devices=[Device] driver nodeName nodeSelector=NodeSelector perDeviceNodeSelection
  pool=ResourcePool sharedCounters=[CounterSet]
ResourcePool!: generation name resourceSliceCount
Device: allNodes allowMultipleAllocations attributes={DeviceAttribute} basic bindingConditions bindingFailureConditions
  bindsToNode capacity={DeviceCapacity} compatibilityGroups consumesCounters=[CounterConsumption] name
  nodeAllocatableResourceMappings nodeName nodeSelector=NodeSelector taints=[DeviceTaint]
DeviceAttribute: bool bools int ints string strings version versions
DeviceCapacity: requestPolicy value
CounterSet: counters name
CounterConsumption: compatibilityGroups counterSet counters
DeviceTaint: effect key timeAdded value
DeviceTaintRuleSpec: deviceSelector=DeviceTaintSelector taint=DeviceTaint
DeviceTaintSelector: device driver pool
DeviceClassSpec: config extendedResourceName selectors=[DeviceSelector] suitableNodes
DeviceSelector!: cel=CelSelector
CelSelector!: expression
ResourceClaimTemplateSpec!: metadata=ObjectMeta spec=ResourceClaimSpec
ResourceClaimSpec: controller devices=DeviceClaim
DeviceClaim: config constraints=[DeviceConstraint] requests=[DeviceRequest]
DeviceRequest: adminAccess allocationMode capacity count deviceClassName exactly=ExactDeviceRequest
  firstAvailable=[ExactDeviceRequest] name selectors=[DeviceSelector] tolerations=[DeviceToleration]
ExactDeviceRequest: adminAccess allocationMode capacity=CapacityRequirements count deviceClassName name
  selectors=[DeviceSelector] tolerations=[DeviceToleration]
CapacityRequirements!: requests
DeviceToleration: effect key operator tolerationSeconds value
DeviceConstraint: distinctAttribute matchAttribute requests

ManagedClusterSpec: hubAcceptsClient leaseDurationSeconds managedClusterClientConfigs taints=[Taint]
ManagedClusterSetSpec: clusterSelector=ClusterSetSelector managedNamespaces
ClusterSetSelector: labelSelector=LabelSelector selectorType
ManagedClusterSetBindingSpec: clusterSet
PlacementSpec: clusterSets decisionStrategy=DecisionStrategy numberOfClusters predicates=[ClusterPredicate]
  prioritizerPolicy=PrioritizerPolicy spreadPolicy=SpreadPolicy tolerations=[Toleration]
DecisionStrategy: groupStrategy=GroupStrategy
GroupStrategy: clustersPerDecisionGroup decisionGroups
ClusterPredicate!: requiredClusterSelector=ClusterSelector
ClusterSelector: celSelector claimSelector labelSelector=LabelSelector
PrioritizerPolicy!: configurations=[PrioritizerConfig] mode
PrioritizerConfig!: scoreCoordinate=ScoreCoordinate weight
ScoreCoordinate: addOn=AddOnScore builtIn type
AddOnScore!: resourceName scoreName
SpreadPolicy!: spreadConstraints=[SpreadConstraint]
SpreadConstraint: maxSkew topologyKey topologyKeyType whenUnsatisfiable
"""
