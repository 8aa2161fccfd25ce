"""Models as a user of Pullpiri writes them: several documents in a file, few of which describe containers."""

NAVIGATION = """\
apiVersion: v1
kind: Scenario
metadata:
  name: driving
spec:
  condition: null
  action: launch
  target: driving
---
apiVersion: v1
kind: Package
metadata:
  label: null
  name: driving
spec:
  pattern:
    - type: plain
  policy: driving_policy
  models:
    - name: navigation
      node: hpc-1
      resources:
        volume:
        network:
---
apiVersion: v1
kind: Policy
metadata:
  name: driving_policy
spec:
  placement:
    availableNodes:
      - hpc-1
  procedure:
    type: offloading
    strategy: redeployment
    trigger:
      resourceThreshold:
        cpu: 50
        memory: 50
---
apiVersion: v1
kind: Model
metadata:
  name: navigation
  annotations:
    io.pullpiri.annotations.package-type: driving
    io.pullpiri.annotations.package-name: driving
    io.pullpiri.annotations.package-network: default
  labels:
    app: navigation
spec:
  hostNetwork: true
  containers:
    - name: router
      image: localhost/navigation-router:1.4
      resources:
        requests:
          cpu: "0.5"
          memory: "256Mi"
        limits:
          cpu: "2"
          memory: "1Gi"
    - name: map
      image: localhost/navigation-map:1.4
      command: ["/bin/map", "--tiles", "/data"]
      resources:
        limits:
          memory: "512Mi"
          nvidia.com/gpu: "1"
      volumeMounts:
        - name: tiles
          mountPath: /data
  volumes:
    - name: tiles
      hostPath:
        path: /srv/tiles
  terminationGracePeriodSeconds: 0
  restartPolicy: Always
"""

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: radio
  labels: null
  annotations: null
spec:
  hostNetwork: null
  containers:
  - name: tuner
    image: localhost/radio:2
    resources:
      limits:
        cpu: '1'
        memory: 128M
      requests: null
  restartPolicy: Never
"""
"""As Pullpiri's node agent writes it down."""


def model(limits: str, *, name: str = "radio", container: str = "tuner", requests: str = "{}") -> str:
    """A model of one container; limits and requests as maps on one line."""
    return f"""\
apiVersion: v1
kind: Model
metadata:
  name: {name}
spec:
  containers:
    - name: {container}
      image: localhost/radio:2
      resources:
        limits: {limits}
        requests: {requests}
"""
