"""What a person looks at: tables, plots, pictures and pages that every task fills."""
