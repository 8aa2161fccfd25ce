"""What is known of Pullpiri: its models, its labels, its stress metric."""
