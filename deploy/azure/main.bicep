// Postroom on Azure: a storage account for all data, and three container apps that run by a managed
// identity, without a password anywhere.
//   az deployment group create --resource-group postroom --template-file main.bicep \
//     --parameters image=REGISTRY/postroom:TAG transport=@transport.txt secretKey=@secret.txt baseUrl=https://…
@description('Where the image was pushed to.')
param image string
@secure()
@description('POSTROOM_TRANSPORT, such as smtp://user:password@mail.example.com:587')
param transport string
@secure()
@minLength(32)
@description('POSTROOM_SECRET_KEY: the same for all web replicas.')
param secretKey string
@description('POSTROOM_BASE_URL: where subscribers reach the pages.')
param baseUrl string
param location string = resourceGroup().location
@minLength(3)
@maxLength(24)
param account string = 'postroom${uniqueString(resourceGroup().id)}'
@description('The most hosts (machines that send) at once.')
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

resource environment 'Microsoft.App/managedEnvironments@2024-03-01' = {
  name: 'postroom'
  location: location
  properties: {}
}

var parts = [
  { name: 'web', least: 1, most: 3 }
  { name: 'scheduler', least: 1, most: 2 }
  { name: 'host', least: 1, most: mostHosts }
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
      ingress: part.name == 'web' ? { external: true, targetPort: 8420, transport: 'http' } : null
    }
    template: {
      // A sender that is asked to stop finishes what is on the wire.
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
          ]
        }
      ]
      scale: { minReplicas: part.least, maxReplicas: part.most }
    }
  }
  dependsOn: [grants]
}]
