"""What training minimises, as functions of tensors."""
