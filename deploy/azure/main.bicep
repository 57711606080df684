// Postroom on Azure: a storage account for all data, and three container apps that use a managed
// identity: no account key is stored anywhere.
//   az acr build --registry REGISTRY --image postroom:TAG --file deploy/Dockerfile .
//   az deployment group create --resource-group postroom --template-file deploy/azure/main.bicep \
//     --parameters registry=REGISTRY image=REGISTRY.azurecr.io/postroom:TAG baseUrl=https://… \
//     transport=@transport.txt secretKey=@secret.txt
@description('The image, with its tag.')
param image string
@description('The Azure container registry, in this resource group, that the image is in. Empty: the image is public.')
param registry string = ''
@secure()
@description('POSTROOM_TRANSPORT, such as smtp://user:password@mail.example.com:587')
param transport string
@secure()
@minLength(32)
@description('POSTROOM_SECRET_KEY: the same for all web replicas.')
param secretKey string
@description('POSTROOM_BASE_URL: where subscribers reach the pages.')
param baseUrl string
@description('POSTROOM_TRUSTED_PROXIES: the addresses from which the ingress forwards requests.')
param trustedProxies string = '100.100.0.0/16'
param location string = resourceGroup().location
@minLength(3)
@maxLength(24)
param account string = 'postroom${uniqueString(resourceGroup().id)}'
@minValue(1)
@description('The maximum number of hosts (machines that send).')
param mostHosts int = 4

resource storage 'Microsoft.Storage/storageAccounts@2023-05-01' = {
  name: account
  location: location
  kind: 'StorageV2'
  sku: { name: 'Standard_ZRS' }
  properties: {
    allowBlobPublicAccess: false
    allowSharedKeyAccess: false
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
  }
}

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: 'postroom'
  location: location
}

// Table, queue and blob data: read and write, and nothing else of the account.
var roles = [
  '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3' // Storage Table Data Contributor
  '974c5e8b-45b9-4653-ba55-5f855dd0fb88' // Storage Queue Data Contributor
  'ba92f5b4-2d11-453d-a403-e96b0029c9fe' // Storage Blob Data Contributor
]

resource grants 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for role in roles: {
  name: guid(storage.id, identity.id, role)
  scope: storage
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role)
  }
}]

resource images 'Microsoft.ContainerRegistry/registries@2023-07-01' existing = if (!empty(registry)) {
  name: registry
}

var acrPull = '7f951dda-4ed3-4680-a7ca-43fe172d538d'

resource mayPull 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(registry)) {
  name: guid(resourceGroup().id, registry, identity.id, acrPull)
  scope: images
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', acrPull)
  }
}

resource environment 'Microsoft.App/managedEnvironments@2024-03-01' = {
  name: 'postroom'
  location: location
  properties: {}
}

// Without a rule the number never changes. Hosts that send are busy; when they are idle, they are
// asked to stop.
var parts = [
  {
    name: 'web'
    most: 3
    rules: [{ name: 'requests', http: { metadata: { concurrentRequests: '50' } } }]
    ingress: { external: true, targetPort: 8420, transport: 'http' }
    probes: [
      { type: 'Liveness', httpGet: { path: '/healthz', port: 8420 } }
      { type: 'Readiness', httpGet: { path: '/readyz', port: 8420 } }
    ]
  }
  { name: 'scheduler', most: 1, rules: [], ingress: null, probes: [] }
  {
    name: 'host'
    most: mostHosts
    rules: [{ name: 'busy', custom: { type: 'cpu', metadata: { type: 'Utilization', value: '60' } } }]
    ingress: null
    probes: []
  }
]

resource apps 'Microsoft.App/containerApps@2024-03-01' = [for part in parts: {
  name: 'postroom-${part.name}'
  location: location
  identity: { type: 'UserAssigned', userAssignedIdentities: { '${identity.id}': {} } }
  properties: {
    environmentId: environment.id
    configuration: {
      secrets: [
        { name: 'transport', value: transport }
        { name: 'secret-key', value: secretKey }
      ]
      registries: empty(registry) ? [] : [{ server: '${registry}.azurecr.io', identity: identity.id }]
      ingress: part.ingress
    }
    template: {
      // A sender that is asked to stop finishes emails in progress.
      terminationGracePeriodSeconds: 60
      containers: [
        {
          name: part.name
          image: image
          args: [part.name]
          resources: { cpu: json('0.5'), memory: '1Gi' }
          env: [
            { name: 'POSTROOM_STORE', value: 'azure://${account}' }
            { name: 'AZURE_CLIENT_ID', value: identity.properties.clientId }
            { name: 'POSTROOM_TRANSPORT', secretRef: 'transport' }
            { name: 'POSTROOM_SECRET_KEY', secretRef: 'secret-key' }
            { name: 'POSTROOM_BASE_URL', value: baseUrl }
            { name: 'POSTROOM_TRUSTED_PROXIES', value: trustedProxies }
          ]
          probes: part.probes
          volumeMounts: [{ volumeName: 'data', mountPath: '/data' }]
        }
      ]
      // Outlives a crashed container: the journal in it says which emails were in progress.
      volumes: [{ name: 'data', storageType: 'EmptyDir' }]
      scale: { minReplicas: 1, maxReplicas: part.most, rules: part.rules }
    }
  }
  dependsOn: [grants, mayPull]
}]

@description('Where the pages are; your own name (baseUrl) leads here by a CNAME record.')
output address string = apps[0].properties.configuration.ingress.fqdn
