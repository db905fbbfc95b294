"""What a person may write: the models of every YAML file of the product."""
